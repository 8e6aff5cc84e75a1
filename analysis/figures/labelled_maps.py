"""GenSen's figure 1: t-SNE maps of labelled sentences by analysis.projection_map, one for each set and model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure as Picture

from analysis import projection_map
from analysis.figures import drawing, style
from analysis.figures.exhibits import Figure
from analysis.figures.scores import Point, in_order
from analysis.projection_map import Agreement, Labelled
from analysis.senteval.files.loaders import Examples
from analysis.senteval.tasks import Task, absent, find, roots
from data.errors import UserError

# Groups of a map's scores: how often the nearest neighbours have a sentence's label, there and at chance level.
IN_MAP, IN_VECTORS, GUESSING = "in the map", "in the vectors", "by guessing"
SIDE = 2.35  # inches
MOST_IN_ROW = 4  # maps of one model, of several
TITLE = 90  # characters of the titles in a row
SENTENCES, SEED = 1000, 0  # sampled of each set


class LabelledMap(NamedTuple):
    """``places`` (n, 2) of ``data``'s sentences, in a figure's ``panel``; ``run`` is the encoder's folder.

    ``model`` names the encoder among several that a figure compares.
    """

    panel: str
    data: Labelled
    places: np.ndarray
    scores: Agreement
    seed: int
    run: str = ""
    model: str = ""


def labelled_map(
    panel: str, data: Labelled, vectors: np.ndarray, *, seed: int = 0, run: str = "", model: str = ""
) -> LabelledMap:
    """Returns the map of ``vectors`` of shape (n, D); ``seed`` is t-SNE's.

    Raises:
        UserError: if there are too few sentences for t-SNE's perplexity.
    """
    places, scores = projection_map.placed(vectors, data.labels, seed=seed)
    return LabelledMap(panel, data, places, scores, seed, run, model)


def agreements(maps: Sequence[LabelledMap]) -> list[Point]:
    """Returns each map's scores as points of the groups above, "<model>, in the map" where models are named."""
    return [
        Point(one.panel, f"{one.model}, {group}".removeprefix(", "), "", one.seed, score, run=one.run)
        for one in maps
        for group, score in zip((IN_VECTORS, IN_MAP, GUESSING), one.scores, strict=True)
    ]


def picture(figure: Figure, maps: Sequence[LabelledMap], note: str) -> Picture:
    """Draws the first map of each panel by each model, a row for each of several; within ``style.look()``."""
    panels = in_order(figure.panels, (one.panel for one in maps))
    models = in_order(figure.groups, (one.model for one in maps))
    drawn = [
        next(one for one in maps if (one.model, one.panel) == (model, panel))
        for model in models
        for panel in panels
    ]
    across = min(len(panels), MOST_IN_ROW if len(models) > 1 else drawing.MOST_ACROSS)
    rows = -(-len(drawn) // across)
    shown = ", ".join(map(str, dict.fromkeys(one.seed for one in drawn)))
    several = len({one.seed for one in maps}) > 1
    keys = [f"Maps of seed {shown}; the scores of all seeds are in the data."] if several else []
    whole, body = drawing.framed(figure, note, rows * (SIDE if across > 1 else 2 * SIDE), keys)
    grid = body.subplots(rows, across, squeeze=False)
    for axes in grid.flat[len(drawn) :]:
        axes.set_visible(False)
    for axes, one in zip(grid.flat, drawn, strict=False):
        projection_map.scatter(axes, one.places, one.data, size=0.75 if across > 1 else 1.0)
        title = wrap(": ".join(filter(None, (one.model, one.panel))), TITLE // across)
        axes.set_title("\n".join(title), fontsize=8)
        axes.set_xlabel(
            f"{len(one.places):,} sentences, label predicted\nby {projection_map.NEIGHBOURS} neighbours: map "
            f"{one.scores.map:.0f} %,\nvectors {one.scores.vectors:.0f} %, guessing {one.scores.guess:.0f} %",
            fontsize=7,
            color=style.MUTED,
        )
    return whole


def require(data: Path, senteval: Mapping[str, Sequence[str]]) -> None:
    """Refuses ``data`` in which ``labelled_sets`` would find nothing, before anything is trained.

    Raises:
        UserError: stating what it may be.
    """
    if not (_files(data) or _tasks(data, senteval)):
        tasks = f", and no {' or '.join(senteval)} of SentEval" if senteval else ""
        raise UserError(f"data={data} has no labelled sentences: no .tsv or .tsv.gz (label, tab, text){tasks}.")


def labelled_sets(data: Path, senteval: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Labelled]]:
    """Yields sets of labelled sentences by name, at most SENTENCES of each: tasks of a SentEval folder, and files.

    Args:
        data: a folder, or one file (label, tab, text).
        senteval: task to the names of its classes.
    """
    for task in _tasks(data, senteval):
        parts = [part for part in task.load(roots(data)[task.group]).values() if isinstance(part, Examples)]
        classes = senteval[task.name]
        texts = {
            text: classes[int(kind)] for part in parts for text, kind in zip(part.first, part.targets, strict=True)
        }
        yield task.name, projection_map.sample(Labelled(list(texts), list(texts.values())), SENTENCES, SEED)
    for file in _files(data):
        yield file.name.split(".")[0], projection_map.sample(projection_map.read(file), SENTENCES, SEED)


def _files(data: Path) -> list[Path]:
    return sorted([*data.glob("*.tsv"), *data.glob("*.tsv.gz")]) if data.is_dir() else [data]


def _tasks(data: Path, senteval: Mapping[str, Sequence[str]]) -> list[Task]:
    tasks = find(senteval) if senteval and data.is_dir() else []
    return [task for task in tasks if absent(task, roots(data)[task.group]) is None]
