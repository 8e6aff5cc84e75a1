"""Held-out scores of runs before and after training; those of equal names as mean and standard deviation.

    python -m analysis.held_out runs/<folder> runs/<another>
    python -m analysis.held_out D=runs/<seed 1> D=runs/<seed 2> C=runs/<seed 1> --format md
    python -m analysis.held_out runs/reproduced/conssent-* --by objective.task objective.k optimizer.lr

Chance is what guessing gets, where that is known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.command import finished
from analysis.quick import chance
from analysis.reporting.matching import CONFIG, named, told
from analysis.reporting.rendering import escape_markdown
from analysis.runs import comparable, read
from analysis.tables import in_order, in_percent, label, show
from data.display import printable
from data.errors import UserError
from data.files import read_yaml

COLUMNS = ("start", "trained", "chance")


class Named(NamedTuple):
    """A run under a name, as ``analysis.runs.read`` has it, and its configuration."""

    name: str
    run: Mapping[str, Any]
    config: Mapping[str, Any]


class Row(NamedTuple):
    """A measure of the runs of one name: values by COLUMNS, as shown."""

    name: str
    runs: int
    measure: str
    values: tuple[str, str, str]


def table(given: Sequence[Named]) -> list[Row]:
    """A row for each name and measure.

    Raises:
        UserError: if a run has no scores, is named twice, or differs from others of its name in more than its
            seed.
    """
    groups: dict[str, list[dict[str, dict[str, float | None]]]] = {}
    firsts: dict[str, Named] = {}
    places = [Path(run["path"]).resolve() for _, run, _ in given]
    if twice := [place for place in dict.fromkeys(places) if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice: each run counts once.")
    for one in given:
        name, run, _ = one
        if other := _difference(firsts.setdefault(name, one), one):
            raise UserError(f"{name} would be the mean of runs that are not alike: {other}. Give them names.")
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
            if (start, trained) != ("–", "–"):  # as what is of documents where sentences are lines
                rows.append(Row(name, len(runs), label(key), (start, trained, guessed)))
    return rows


def _difference(one: Named, other: Named) -> str:
    """The first setting but the seed in which they differ, with both values; "" where there is none."""
    first, second = (
        dict(_settings(comparable(run.config))) | {"weights": run.run.get("weights")} for run in (one, other)
    )
    for key in sorted(first.keys() | second.keys()):
        if first.get(key) != second.get(key):
            return f"{key} is {first.get(key)} in {one.run['path']}, {second.get(key)} in {other.run['path']}"
    return ""


def _settings(config: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value but the seed's by its key ("objective.k")."""
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
    """Of FOLDER or NAME=FOLDER; the name is else what the run has at ``by``, or its folder's."""
    name, path = named(given)
    if not (Path(path) / CONFIG).is_file():
        raise UserError(f"{path} is not the folder of a run: it has no {CONFIG}.")
    run = read(Path(path))
    if run["problem"] is not None:  # which is told where its scores are looked for
        return Named(name or str(run["run"]), run, {})
    config = read_yaml(Path(path) / CONFIG)
    if by and not name:
        name = told(config, by) or ""
        if not name:
            raise UserError(f"{path}: its {CONFIG} has none of --by {' '.join(by)}.")
    return Named(name or str(run["run"]), run, config)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.held_out",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN", help="folders of finished runs")
    parser.add_argument("--format", default="text", choices=("text", "md"))
    parser.add_argument(
        "--by", nargs="+", default=[], metavar="KEY", help="name runs by their configuration: objective.task, say"
    )
    given = parser.parse_args(arguments)

    def work() -> None:
        rows = table([_named(one, given.by) for one in given.runs])
        if given.format == "text":
            Console(width=max(Console().width, 100)).print(as_text(rows))
        else:
            print(as_markdown(rows))

    return finished(work)


if __name__ == "__main__":
    sys.exit(main())
