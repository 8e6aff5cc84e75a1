"""Rows of one name as one row: mean and standard deviation (over n - 1) of each score, as over seeds."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

from analysis.senteval.printed import Key
from analysis.senteval.rendering import Grid, Row, score_cell


def merged(grid: Grid) -> Grid:
    """``grid`` with our rows of equal name and protocol as one each, where the first one stood.

    A cell that one of them lacks is left empty. A note tells how many results are behind each row.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in grid.ours:
        groups.setdefault((row.name, row.protocol), []).append(row)
    rows = [_merged(group) for group in groups.values()]
    if len(rows) == len(grid.ours):
        return grid
    told = ", ".join(f"{name} ({len(group)})" for (name, _), group in groups.items())
    note = f"Mean ± standard deviation over the results of each name: {told}."
    columns = [key for key in grid.columns if any(key in row.cells for row in rows)]
    return replace(grid, ours=rows, columns=columns, notes=[*grid.notes, note])


def _merged(rows: list[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    shared: list[Key] = [key for key in rows[0].cells if all(key in row.cells for row in rows)]
    values = {key: [row.cells[key].value for row in rows] for key in shared}
    deviations = {key: stdev(found) for key, found in values.items()}
    cells = {key: score_cell(fmean(found), deviations[key]) for key, found in values.items()}
    return replace(rows[0], cells=cells, deviations=deviations)
