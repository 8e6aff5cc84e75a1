"""GenSen's figure 1: t-SNE maps of labelled sentences by analysis.projection_map, one a data set and model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure as Picture

from analysis import projection_map
from analysis.figures import drawing, style
from analysis.figures.description import Figure, Point, in_order
from analysis.projection_map import Agreement, Labelled

# The groups of a map's scores: how often a label is named by the nearest neighbours there, and by guessing.
IN_MAP, IN_VECTORS, GUESSING = "in the map", "in the vectors", "by guessing"
SIDE = 2.35  # inches


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
    """The map of ``vectors`` of shape (n, D); ``seed`` is t-SNE's.

    Raises:
        UserError: if there are too few sentences for t-SNE's perplexity.
    """
    places, scores = projection_map.placed(vectors, data.labels, seed=seed)
    return LabelledMap(panel, data, places, scores, seed, run, model)


def agreements(maps: Sequence[LabelledMap]) -> list[Point]:
    """Each map's scores as points of the groups above, "<model>, in the map" where models are named."""
    return [
        Point(one.panel, f"{one.model}, {group}".removeprefix(", "), "", one.seed, score, run=one.run)
        for one in maps
        for group, score in zip((IN_VECTORS, IN_MAP, GUESSING), one.scores, strict=True)
    ]


def picture(figure: Figure, maps: Sequence[LabelledMap], note: str) -> Picture:
    """The first map of each panel by each model; within ``style.look()``."""
    panels = in_order(figure.panels, (one.panel for one in maps))
    models = in_order(figure.groups, (one.model for one in maps))
    drawn = [
        next(one for one in maps if (one.model, one.panel) == (model, panel))
        for model in models
        for panel in panels
    ]
    across = min(len(panels), drawing.MOST_ACROSS)
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
        axes.set_title(": ".join(filter(None, (one.model, f"{one.panel}, {len(one.places):,} sentences"))))
        axes.set_xlabel(
            f"label named by {projection_map.NEIGHBOURS} neighbours:\n{one.scores.map:.0f} % in the map, "
            f"{one.scores.vectors:.0f} % in the vectors,\n{one.scores.guess:.0f} % by guessing",
            fontsize=7,
            color=style.MUTED,
        )
    return whole
