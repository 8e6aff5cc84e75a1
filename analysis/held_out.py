"""Held-out scores of runs before and after training, as mean and standard deviation over runs of equal names.

The column "chance" gives chance level if known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.quick import chance
from analysis.reporting.matching import CONFIG, config_label, expanded, named
from analysis.reporting.rendering import escape_markdown
from analysis.runs import comparable, mixed_probes, read
from analysis.settings import HeldOutSettings
from analysis.tables import in_order, in_percent, label, show
from data.display import printable
from data.errors import UserError
from data.files import read_yaml

COLUMNS = ("start", "trained", "chance")


class Named(NamedTuple):
    """A named run, as read by ``analysis.runs.read``, and its configuration."""

    name: str
    run: Mapping[str, Any]
    config: Mapping[str, Any]


class Row(NamedTuple):
    """A score of the runs of one name: values of COLUMNS, as shown."""

    name: str
    runs: int
    measure: str
    values: tuple[str, str, str]


def table(given: Sequence[Named]) -> list[Row]:
    """Builds a row for each name and score.

    Raises:
        UserError: if a run has no scores, is named twice, or differs from others of its name not only in seed.
    """
    groups: dict[str, list[dict[str, dict[str, float | None]]]] = {}
    firsts: dict[str, Named] = {}
    places = [Path(run["path"]).resolve() for _, run, _ in given]
    if twice := [place for place in dict.fromkeys(places) if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice: each run counts once.")
    for one in given:
        name, run, _ = one
        if other := _difference(firsts.setdefault(name, one), one):
            raise UserError(f"{name} would be the mean of runs that differ: {other}. Give them names.")
        if not run.get("trained"):
            raise UserError(f"{run['path']} has no held-out scores: {run['problem'] or 'it is not finished'}.")
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
                rows.append(Row(name, len(runs), label(key), (start, trained, guessed)))
    return rows


def _difference(one: Named, other: Named) -> str:
    """Describes the first setting, other than the seed, in which two runs differ; "" if there is none."""
    first, second = (
        dict(_settings(comparable(run.config)))
        | {"weights": run.run.get("weights"), "the probes' version": run.run.get("version")}
        for run in (one, other)
    )
    for key in sorted(first.keys() | second.keys()):
        if first.get(key) != second.get(key):
            return f"{key} is {first.get(key)} in {one.run['path']}, {second.get(key)} in {other.run['path']}"
    return ""


def _settings(config: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value except the seed with its key ("objective.k")."""
    for key, value in config.items():
        if at or key != "seed":
            if isinstance(value, Mapping):
                yield from _settings(value, f"{at}{key}.")
            else:
                yield f"{at}{key}", value


def _spread(key: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    mean = show(key, fmean(known))
    return f"{mean} ± {show(key, stdev(known))}" if len(known) > 1 and stdev(known) else mean


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [["run", "runs", "held-out text", *COLUMNS], [":--", "--:", ":--", "--:", "--:", "--:"]]
    lines += [[escape_markdown(row.name), str(row.runs), row.measure, *row.values] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_text(rows: Sequence[Row]) -> Table:
    shown = Table(header_style="bold")
    for name in ("run", "runs", "held-out text", *COLUMNS):
        shown.add_column(name, justify="left" if name in ("run", "held-out text") else "right")
    last = ""
    for row in rows:
        again = row.name == last
        shown.add_row(
            "" if again else escape(printable(row.name)), "" if again else str(row.runs), row.measure, *row.values
        )
        last = row.name
    return shown


def _named(given: str, by: Sequence[str]) -> Named:
    """Reads FOLDER or NAME=FOLDER; NAME defaults to the configuration's values at ``by``, or the folder's."""
    name, path = named(given)
    if not (Path(path) / CONFIG).is_file():
        raise UserError(f"{path} is not the folder of a run: it has no {CONFIG}.")
    run = read(Path(path))
    if run["problem"] is not None:  # reported by ``table``, which needs its scores
        return Named(name or str(run["run"]), run, {})
    config = read_yaml(Path(path) / CONFIG)
    if by and not name:
        name = config_label(config, by) or ""
        if not name:
            raise UserError(f"{path}: its {CONFIG} has none of by=[{','.join(by)}].")
    return Named(name or str(run["run"]), run, config)


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
