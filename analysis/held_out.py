"""Scores of one run on held-out text, before and after training: for the terminal, and for its model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from analysis.quick import SCORES, Scores, chance, missing, score_of

COLUMNS = ("held-out text", "start", "trained", "change", "chance", "n")


def quick_table(quick: Mapping[str, Scores], *, title: str, facts: Mapping[str, Any]) -> Table:
    """Returns a table of the scores in quick.json.

    Args:
        quick: scores by "start", "trained" and "chance": those of ``analysis.quick.evaluate`` and dev losses
            (``dev_*``); any may be absent.
        title: objective, encoder and text of the training.
        facts: settings of the scores (weights, negatives per anchor, tokens seen), printed below the table.
    """
    start, trained, levels = (_in_percent(quick.get(column) or {}) for column in ("start", "trained", "chance"))
    scores = start | trained
    shown = (f"{value:,}" if isinstance(value, int) else str(value) for value in facts.values())
    caption = [" · ".join(f"{name.replace('_', ' ')}: {value}" for name, value in zip(facts, shown, strict=True))]
    caption += [line for name in scores if (line := missing(name, scores))]
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        caption="\n".join(filter(None, caption)),
        caption_justify="left",
        caption_style="dim",
    )
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for name in _in_order(scores):
        count = scores.get(score_of(name).count)
        table.add_row(
            _row_name(name),
            _format(name, start.get(name)),
            _format(name, trained.get(name)),
            _change(name, start.get(name), trained.get(name), count),
            _format(name, levels.get(name, chance(name, scores))),
            "" if count is None else f"{count:,.0f}",
        )
    return table


def card_scores(quick: Mapping[str, Scores]) -> dict[str, dict[str, str]]:
    """Returns the same rows for a model's card: formatted values by label for "start" and "trained"."""
    columns = {name: _in_percent(quick.get(name) or {}) for name in ("start", "trained")}
    scores = columns["start"] | columns["trained"]
    labels = {}
    for name in _in_order(scores):
        count = scores.get(score_of(name).count)
        labels[name] = _row_name(name) + ("" if count is None else f", n = {count:,.0f}")
    return {
        column: {label: _format(name, values.get(name)) for name, label in labels.items()}
        for column, values in columns.items()
    }


def _in_order(scores: Scores) -> list[str]:
    """Sorts names of scores: percentages, held-out losses, measures of the vector space."""
    known = sorted((name for name in SCORES if name in scores), key=lambda name: not SCORES[name].percent)
    percentages = sum(SCORES[name].percent for name in known)
    losses = sorted(name for name in scores if name.startswith("dev_") and not name.endswith("_unigram"))
    return known[:percentages] + losses + known[percentages:]


def _row_name(name: str) -> str:
    score = score_of(name)
    return f"{score.title}{', %' if score.percent else ''} {'↑' if score.higher_is_better else '↓'}"


def _in_percent(scores: Scores) -> dict[str, float | None]:
    """Returns ``scores`` with held-out accuracies, which are stored as shares, in percent."""
    return {
        name: 100 * value if value is not None and name.removesuffix("_unigram").endswith("_accuracy") else value
        for name, value in scores.items()
    }


def _format(name: str, value: float | None) -> str:
    return "–" if value is None else f"{value:.{score_of(name).decimals}f}"


def _change(name: str, start: float | None, trained: float | None, count: float | None) -> str:
    """Formats the change, coloured if it exceeds two standard errors for ``count`` questions."""
    if start is None or trained is None:
        return "–"
    score, change = score_of(name), trained - start
    error = (sum(p * (100 - p) for p in (start, trained)) / count) ** 0.5 if score.percent and count else 0.0
    text = f"{change:+z.{score.decimals}f}"
    if not score.ranked or abs(change) <= 2 * error:
        return text
    colour = "green" if (change > 0) == score.higher_is_better else "red"
    return f"[{colour}]{text}[/{colour}]"
