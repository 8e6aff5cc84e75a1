"""Means of the rows of one name, as over seeds, and their differences to another name's."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev

from analysis.intervals import reach, welch
from analysis.reporting.printed import Cell, Key
from analysis.reporting.rendering import Grid, Row, score_cell
from data.errors import UserError


def merged(grid: Grid, *, interval: bool = False) -> Grid:
    """Merges the own rows of equal name and protocol into one, at the place of the first.

    A cell missing in one of them stays empty. A note gives the number of results in each row.

    Args:
        interval: if true, means have the half-width of their 95 % interval (Student's t); otherwise the scores'
            standard deviation (n - 1).
    """
    groups = _groups(grid)
    rows = [_merged(group, interval) for group in groups.values()]
    if len(rows) == len(grid.ours):
        return grid
    counts = ", ".join(f"{name} ({len(group)})" for (name, _), group in groups.items())
    spread = "half of its 95 % interval (t)" if interval else "standard deviation"
    note = f"Mean ± {spread} over the results of each name: {counts}."
    printed = {key for key in grid.columns if not any(key in row.cells for row in grid.ours)}
    columns = [key for key in grid.columns if key in printed or any(key in row.cells for row in rows)]
    return replace(
        grid, ours=rows, columns=columns, notes=[*grid.notes, note], spread="ci95" if interval else "sd"
    )


def differences(grid: Grid, base: str) -> Grid:
    """Computes the differences of all names' means to ``base``, with half of their 95 % interval (Student's t).

    If both names have equally many results, these are paired in order, like seeds that share their data.
    Otherwise the interval is Welch's or, if one name has a single result, that of the other mean. One against one
    has no interval. Names without a result of ``base`` by the same protocol are left out.

    Raises:
        UserError: if nothing is left.
    """
    groups = _groups(grid)
    pairs = [
        (rows, groups[base, protocol])
        for (name, protocol), rows in groups.items()
        if name != base and (base, protocol) in groups
    ]
    if not pairs:
        names = ", ".join(dict.fromkeys(name for name, _ in groups))
        raise UserError(f"against must be one of two or more names of one protocol: {names}. Got {base} instead.")
    counts = ", ".join(f"{rows[0].name} ({len(rows)}, {len(of)})" for rows, of in pairs)
    rows = [_difference(*pair) for pair in pairs]
    note = f"Difference to {base}: one result of each, so that there is no interval."
    if any(row.deviations for row in rows):
        note = (
            f"Difference to {base} ± half of its 95 % interval (t), and the numbers of results, which are paired "
            f"in their order where there are as many of both: {counts}."
        )
    columns = [key for key in grid.columns if any(key in row.cells for row in rows)]
    return Grid(f"{grid.title}, difference to {base}", columns, rows, [], [*grid.notes, note], "ci95")


def _groups(grid: Grid) -> dict[tuple[str, str], list[Row]]:
    """Groups the own rows by name and protocol."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in grid.ours:
        groups.setdefault((row.name, row.protocol), []).append(row)
    return groups


def _difference(rows: list[Row], base: list[Row]) -> Row:
    cells, deviations = {}, {}
    for key in (key for key in rows[0].cells if all(key in row.cells for row in rows + base)):
        ours, theirs = ([row.cells[key].value for row in side] for side in (rows, base))
        value, half = fmean(ours) - fmean(theirs), None
        if len(ours) == len(theirs) > 1:
            half = reach(stdev(a - b for a, b in zip(ours, theirs, strict=True)) / sqrt(len(ours)), len(ours) - 1)
        elif sides := [(stdev(side), len(side)) for side in (ours, theirs) if len(side) > 1]:
            half = reach(*welch(*sides))
        cells[key] = Cell(value, f"{value:+.2f}" + ("" if half is None else f" ± {half:.2f}"))
        if half is not None:
            deviations[key] = half
    return replace(rows[0], cells=cells, deviations=deviations, count=len(rows))


def _merged(rows: list[Row], interval: bool) -> Row:
    if len(rows) == 1:
        return rows[0]
    shared: list[Key] = [key for key in rows[0].cells if all(key in row.cells for row in rows)]
    values = {key: [row.cells[key].value for row in rows] for key in shared}
    n = len(rows)
    deviations = {
        key: reach(stdev(found) / sqrt(n), n - 1) if interval else stdev(found) for key, found in values.items()
    }
    cells = {key: score_cell(fmean(found), deviations[key]) for key, found in values.items()}
    return replace(rows[0], cells=cells, deviations=deviations, count=len(rows))
