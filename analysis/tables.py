"""Tables of scores before and after training, for the terminal and for a model's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from analysis.quick import SCORES, Scores, chance, missing, score_of


def quick_table(quick: Mapping[str, Scores], *, title: str, facts: Mapping[str, Any]) -> Table:
    """Returns a table of the scores in quick.json: start | trained | change | chance | n.

    Args:
        quick: scores by "start", "trained" and "chance": those of ``analysis.quick.evaluate`` and dev losses
            (``dev_*``); any may be absent.
        title: objective, encoder and text of the training.
        facts: settings of the scores (weights, negatives per anchor, tokens seen), printed below the table.
    """
    start, trained, guessed = (in_percent(quick.get(column) or {}) for column in ("start", "trained", "chance"))
    both = start | trained
    result = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        caption="\n".join(_caption(both, facts)),
        caption_justify="left",
        caption_style="dim",
    )
    result.add_column("held-out text")
    for name in ("start", "trained", "change", "chance", "n"):
        result.add_column(name, justify="right")
    for name in in_order(both):
        result.add_row(
            label(name),
            show(name, start.get(name)),
            show(name, trained.get(name)),
            _change(name, start.get(name), trained.get(name), both.get(score_of(name).count)),
            show(name, guessed.get(name, chance(name, both))),
            f"{count:,.0f}" if (count := both.get(score_of(name).count)) is not None else "",
        )
    return result


def card_scores(quick: Mapping[str, Scores]) -> dict[str, dict[str, str]]:
    """Returns the same rows for a model's card: formatted values by label for "start" and "trained"."""
    columns = {name: in_percent(quick.get(name) or {}) for name in ("start", "trained")}
    both = columns["start"] | columns["trained"]
    counts = {name: both.get(score_of(name).count) for name in in_order(both)}
    labels = {name: label(name) + (f", n = {n:,.0f}" if n is not None else "") for name, n in counts.items()}
    return {
        column: {label: show(name, found.get(name)) for name, label in labels.items()}
        for column, found in columns.items()
    }


def in_order(scores: Mapping[str, float | None]) -> list[str]:
    """Sorts names of scores for tables: percentages, held-out losses, measures of the vector space."""
    known = [name for name in SCORES if name in scores]
    percentages = [name for name in known if SCORES[name].percent]
    losses = sorted(name for name in scores if name.startswith("dev_") and not name.endswith("_unigram"))
    return percentages + losses + [name for name in known if name not in percentages]


def label(name: str) -> str:
    """Returns the name of a score's row: "probe: word content, % ↑"."""
    score = score_of(name)
    group = f"{score.group}: " if score.group else ""
    return f"{group}{score.label}{', %' if score.percent else ''} {'↑' if score.higher_is_better else '↓'}"


def in_percent(scores: Scores) -> dict[str, float | None]:
    """Returns ``scores`` with held-out accuracies, which are stored as shares, in percent."""
    shares = {name for name in scores if name.removesuffix("_unigram").endswith("_accuracy")}
    return {name: 100 * value if value is not None and name in shares else value for name, value in scores.items()}


def show(name: str, value: float | None) -> str:
    """Formats a value of score ``name`` with its decimals; "–" if it is missing."""
    return "–" if value is None else f"{value:.{score_of(name).decimals}f}"


def _change(name: str, start: float | None, trained: float | None, count: float | None) -> str:
    """Formats the change, coloured if it exceeds two standard errors for ``count`` questions."""
    if start is None or trained is None:
        return "–"
    score, change = score_of(name), trained - start
    error = (sum(p * (100 - p) for p in (start, trained)) / count) ** 0.5 if score.percent and count else 0.0
    shown = f"{change:+.{score.decimals}f}"
    if not score.ranked or abs(change) <= 2 * error:
        return shown
    colour = "green" if (change > 0 if score.higher_is_better else change < 0) else "red"
    return f"[{colour}]{shown}[/{colour}]"


def _caption(scores: dict[str, float | None], facts: Mapping[str, Any]) -> list[str]:
    parts = [
        f"{name.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"{name.replace('_', ' ')}: {value}"
        for name, value in facts.items()
    ]
    reasons = [line for name in scores if (line := missing(name, scores))]
    return ([" · ".join(parts)] if parts else []) + reasons
