"""Picture of SentEval results for a paper: the mean of each name's results by task, with its 95 % interval (t)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.model_names import Names
from analysis.plots import MARKERS, PANEL, SERIES, look, new_figure, save
from analysis.reporting.matching import read_named, require_equal
from analysis.reporting.rendering import Grid, heading
from analysis.reporting.tables import comparison
from analysis.senteval.tasks import find


def draw_results(
    *,
    results: Names,
    tasks: Names | None = None,
    split: Literal["test", "dev"] = "test",
    title: str = "",
    out: str = "results",
) -> None:
    """Draws results as ``out``.pdf and ``out``.png, and writes their numbers to ``out``.csv.

    Args:
        results: folders of results, or NAME=FOLDER; "*" stands for any letters.
        tasks: tasks that are shown; None: all.
        split: "test" or "dev".
        title: of the picture.
        out: path of the files without their endings.

    Raises:
        UserError: if results cannot be read, or those of one name are of different experiments.
    """
    shown = {task.name for task in find(tasks)} if tasks else None
    stored = read_named(results)
    require_equal(stored)
    grid = comparison([one.results for one in stored], split=split, tasks=shown, interval=True)
    numbers = frame(grid)
    for path in save(draw(numbers, title or grid.title, grid.notes), Path(out).expanduser(), numbers):
        print(path)


def frame(grid: Grid) -> pd.DataFrame:
    """Returns a row for each cell: name, score, mean, half of its interval (NaN for one result), results."""
    rows = [
        (row.name, heading(key), cell.value, row.deviations.get(key, np.nan), row.count)
        for row in grid.ours
        for key, cell in row.cells.items()
        if key in grid.columns
    ]
    return pd.DataFrame(rows, columns=["name", "score", "mean", "interval", "results"])


def draw(numbers: pd.DataFrame, title: str, notes: Sequence[str]) -> Figure:
    """Draws a cluster of means for each score, and a colour for each name."""
    scores, names = numbers["score"].unique(), numbers["name"].unique()
    with look():
        note = "\n".join([*notes, "Point: mean; bar: its 95 % interval (t)."])
        figure = new_figure(title, note, height=max(PANEL, 0.22 * len(scores) * len(names)))
        axes = figure.subplots()
        for number, name in enumerate(names):
            rows = numbers[numbers["name"] == name].set_index("score").reindex(scores)
            places = np.arange(len(scores)) + 0.7 * ((number + 0.5) / len(names) - 0.5)
            color, marker = SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]
            marks: dict[str, Any] = {"color": color, "fmt": marker, "markersize": 4, "capsize": 2}
            axes.errorbar(rows["mean"], places, xerr=rows["interval"], label=name, **marks)
        axes.set_yticks(range(len(scores)), scores)
        axes.set_xlabel("score, % or correlation x 100")
        axes.invert_yaxis()
        figure.legend(loc="outside right upper")
    return figure
