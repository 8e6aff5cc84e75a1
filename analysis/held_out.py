"""Tables of held-out scores: of one run, for the terminal and its model card, and of several runs.

Runs of the same name are shown as their mean and standard deviation. The column "chance" gives the chance level,
if it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.quick import SCORES, Scores, chance, missing, score_of
from analysis.reporting.matching import CONFIG, config_label, expanded, named
from analysis.reporting.rendering import escape_markdown, markdown_table, text_table
from analysis.runs import comparable, mixed_probes, read
from analysis.settings import HeldOutSettings
from data.display import printable
from data.errors import UserError
from data.schema import dotted

COLUMNS = ("start", "trained", "chance")
HEADINGS, SIDES = ("run", "runs", "held-out text", *COLUMNS), "lrlrrr"


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
            row_name(name),
            format_score(name, start.get(name)),
            format_score(name, trained.get(name)),
            _change(name, start.get(name), trained.get(name), both.get(score_of(name).count)),
            format_score(name, guessed.get(name, chance(name, both))),
            f"{count:,.0f}" if (count := both.get(score_of(name).count)) is not None else "",
        )
    return result


def card_scores(quick: Mapping[str, Scores]) -> dict[str, dict[str, str]]:
    """Returns the same rows for a model's card: formatted values by label for "start" and "trained"."""
    columns = {name: in_percent(quick.get(name) or {}) for name in ("start", "trained")}
    both = columns["start"] | columns["trained"]
    counts = {name: both.get(score_of(name).count) for name in in_order(both)}
    labels = {name: row_name(name) + (f", n = {n:,.0f}" if n is not None else "") for name, n in counts.items()}
    return {
        column: {label: format_score(name, found.get(name)) for name, label in labels.items()}
        for column, found in columns.items()
    }


def in_order(scores: Mapping[str, float | None]) -> list[str]:
    """Sorts names of scores for tables: percentages, held-out losses, measures of the vector space."""
    known = [name for name in SCORES if name in scores]
    percentages = [name for name in known if SCORES[name].percent]
    losses = sorted(name for name in scores if name.startswith("dev_") and not name.endswith("_unigram"))
    return percentages + losses + [name for name in known if name not in percentages]


def row_name(name: str) -> str:
    """Returns the name of a score's row: "probe: word content, % ↑"."""
    score = score_of(name)
    return f"{score.title}{', %' if score.percent else ''} {'↑' if score.higher_is_better else '↓'}"


def in_percent(scores: Scores) -> dict[str, float | None]:
    """Returns ``scores`` with held-out accuracies, which are stored as shares, in percent."""
    shares = {name for name in scores if name.removesuffix("_unigram").endswith("_accuracy")}
    return {name: 100 * value if value is not None and name in shares else value for name, value in scores.items()}


def format_score(name: str, value: float | None) -> str:
    """Formats a value of score ``name`` with its decimals; "–" if it is missing."""
    return "–" if value is None else f"{value:.{score_of(name).decimals}f}"


def _change(name: str, start: float | None, trained: float | None, count: float | None) -> str:
    """Formats the change, coloured if it exceeds two standard errors for ``count`` questions."""
    if start is None or trained is None:
        return "–"
    score, change = score_of(name), trained - start
    error = (sum(p * (100 - p) for p in (start, trained)) / count) ** 0.5 if score.percent and count else 0.0
    shown = f"{change:+z.{score.decimals}f}"
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


class NamedRun(NamedTuple):
    """A named run, as read by ``analysis.runs.read``."""

    name: str
    run: Mapping[str, Any]


class Row(NamedTuple):
    """A score of the runs of one name: values of COLUMNS, as shown."""

    name: str
    runs: int
    measure: str
    values: tuple[str, str, str]


def table(given: Sequence[NamedRun]) -> list[Row]:
    """Builds a row for each name and score.

    Raises:
        UserError: if a run has no scores or is named twice, or if runs of one name differ in more than their seed.
    """
    groups: dict[str, list[dict[str, dict[str, float | None]]]] = {}
    firsts: dict[str, NamedRun] = {}
    places = [Path(run["path"]).resolve() for _, run in given]
    if twice := [place for place in dict.fromkeys(places) if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice: each run counts once.")
    for one in given:
        name, run = one
        if not run.get("trained"):
            raise UserError(f"{run['path']} has no held-out scores: {run['problem'] or 'it is not finished'}.")
        if other := _difference(firsts.setdefault(name, one), one):
            raise UserError(f"{name} would be the mean of runs that differ: {other}. Give them names.")
        found = {column: in_percent(run.get(column) or {}) for column in COLUMNS}
        both = found["start"] | found["trained"]
        found["chance"] = {key: found["chance"].get(key, chance(key, both)) for key in both}
        groups.setdefault(name, []).append(found)
    rows = []
    for name, runs in groups.items():
        shared = [key for key in in_order(runs[0]["trained"]) if all(key in run["trained"] for run in runs)]
        for key in shared:
            start, trained, guessed = (_spread(key, [run[column].get(key) for run in runs]) for column in COLUMNS)
            if (start, trained) != ("–", "–"):  # scores of documents are missing if lines are sentences
                rows.append(Row(name, len(runs), row_name(key), (start, trained, guessed)))
    return rows


def _difference(one: NamedRun, other: NamedRun) -> str:
    """Describes the first setting, other than the seed, in which two runs differ; "" if there is none."""
    first, second = (
        {key: value for key, value in dotted(comparable(run.run["config"])) if key != "seed"}
        | {"weights": run.run.get("weights"), "the probes' version": run.run.get("version")}
        for run in (one, other)
    )
    for key in sorted(first.keys() | second.keys()):
        if first.get(key) != second.get(key):
            return f"{key} is {first.get(key)} in {one.run['path']}, {second.get(key)} in {other.run['path']}"
    return ""


def _spread(key: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    mean = format_score(key, fmean(known))
    return f"{mean} ± {format_score(key, stdev(known))}" if len(known) > 1 and stdev(known) else mean


def as_markdown(rows: Sequence[Row]) -> str:
    cells = ([escape_markdown(row.name), str(row.runs), row.measure, *row.values] for row in rows)
    return markdown_table(HEADINGS, cells, SIDES)


def as_text(rows: Sequence[Row]) -> Table:
    lines, last = [], ""
    for row in rows:
        first = ["", ""] if row.name == last else [row.name, str(row.runs)]
        lines.append([*first, row.measure, *row.values])
        last = row.name
    return text_table(HEADINGS, lines, SIDES)


def _named(given: str, by: Sequence[str]) -> NamedRun:
    """Reads FOLDER or NAME=FOLDER; NAME defaults to the configuration's values at ``by``, or the folder's."""
    name, path = named(given)
    if not (Path(path) / CONFIG).is_file():
        exists = Path(path).exists()
        what = f" is not the folder of a run: it has no {CONFIG}" if exists else ": there is no such folder"
        raise UserError(f"{path}{what}.")
    run = read(Path(path))
    if by and not name and run["problem"] is None:  # ``table`` reports a problem
        name = config_label(run["config"], by) or ""
        if not name:
            raise UserError(f"{path}: its {CONFIG} has none of by=[{','.join(by)}].")
    return NamedRun(name or str(run["run"]), run)


def run(settings: HeldOutSettings) -> None:
    """Prints the table of the runs' scores."""
    runs = [_named(one, settings.by) for one in expanded(settings.runs)]
    rows, notes = table(runs), mixed_probes([one.run for one in runs])
    if settings.format == "text":
        console = Console(width=max(Console().width, 100))
        console.print(as_text(rows))
        for note in notes:
            console.print(escape(printable(note)))
    else:
        print("\n".join([as_markdown(rows), *(f"\n{escape_markdown(note)}" for note in notes)]))
