"""Rows of one name as one row: the mean of each score, as over seeds, with its spread or its uncertainty."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from statistics import fmean, stdev

from scipy.stats import t

from analysis.senteval.printed import Key
from analysis.senteval.rendering import Grid, Row, score_cell


def merged(grid: Grid, *, interval: bool = False) -> Grid:
    """``grid`` with our rows of equal name and protocol as one each, where the first one stood.

    A cell that one of them lacks is left empty. A note tells how many results are behind each row.

    Args:
        interval: means stand with the half of their 95 % interval (Student's t), not with the scores' standard
            deviation (over n - 1).
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in grid.ours:
        groups.setdefault((row.name, row.protocol), []).append(row)
    rows = [_merged(group, interval) for group in groups.values()]
    if len(rows) == len(grid.ours):
        return grid
    told = ", ".join(f"{name} ({len(group)})" for (name, _), group in groups.items())
    spread = "half of its 95 % interval (t)" if interval else "standard deviation"
    note = f"Mean ± {spread} over the results of each name: {told}."
    columns = [key for key in grid.columns if any(key in row.cells for row in rows)]
    return replace(
        grid, ours=rows, columns=columns, notes=[*grid.notes, note], spread="ci95" if interval else "sd"
    )


def _merged(rows: list[Row], interval: bool) -> Row:
    if len(rows) == 1:
        return rows[0]
    shared: list[Key] = [key for key in rows[0].cells if all(key in row.cells for row in rows)]
    values = {key: [row.cells[key].value for row in rows] for key in shared}
    scale = t.ppf(0.975, len(rows) - 1) / sqrt(len(rows)) if interval else 1.0
    deviations = {key: scale * stdev(found) for key, found in values.items()}
    cells = {key: score_cell(fmean(found), deviations[key]) for key, found in values.items()}
    return replace(rows[0], cells=cells, deviations=deviations, count=len(rows))
