"""A map of labelled sentences: a plot of their vectors in two dimensions by t-SNE (GenSen's figure 1).

    min KL(P || Q),   p_ij by Gaussians of the given perplexity around x_i,   q_ij ~ 1 / (1 + |y_i - y_j|^2)

van der Maaten and Hinton (2008), in scikit-learn's implementation. Lines of the file are label, tab, text. Vectors
are scaled to length 1, so that distances order pairs as cosines do. Vectors wider than 50 are first reduced to
their first 50 principal components, as in that paper's section 4.2 (30 there).

A t-SNE map shows neighbourhoods. Sizes of clusters and distances between them mean nothing, and clusters appear
even in noise. So an evaluation also computes how often a sentence has the majority label of its nearest
neighbours, in the vectors and in the map, next to the share of the most frequent label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Annotated, NamedTuple, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from pydantic import Field

from analysis import plots
from analysis.models import Model
from analysis.quick import normalise
from analysis.reports import ReportOptions, make_command
from data.display import printable
from data.errors import UserError, reading
from data.randomness import EVALUATED_SPLIT, generator
from data.ranges import Count, Seed
from data.sources.reading import lines

PERPLEXITY = 30.0
COMPONENTS = 50
NEIGHBOURS = 10
COLOURS = plots.SERIES
NOTES = (
    f"Sentences, in percent, with the most frequent label of their {NEIGHBOURS} nearest neighbours, in the "
    "vectors and in the map; guess: with the most frequent label of all.",
)


class Agreement(NamedTuple):
    """Share of sentences, in percent, with their neighbours' label: in the vectors, in the map, and by chance."""

    vectors: float
    map: float
    guess: float


class Labelled(NamedTuple):
    """n texts and their labels; ``names`` are the sorted distinct labels, so that each keeps its colour."""

    texts: list[str]
    labels: list[str]

    @property
    def names(self) -> list[str]:
        return sorted(set(self.labels), key=lambda name: (int(name) if name.isdecimal() else -1, name))


def read(path: Path, labels: Sequence[str] | None = None) -> Labelled:
    """Reads the distinct sentences of a file, or of some of its labels.

    Raises:
        UserError: if a line has no tab, or there is no sentence of a label.
    """
    labels_by_text: dict[str, str] = {}
    for number, line in lines(path):
        if line.strip():
            with reading("line of label, tab, text", f"{path}:{number}"):
                label, text, *_ = line.rstrip("\r\n").split("\t")
            if text.strip() and (not labels or label in labels):
                labels_by_text.setdefault(text, label)
    if missing := {*(labels or ())} - {*labels_by_text.values()}:
        raise UserError(f"{path} has no {', '.join(sorted(missing))}", key="labels")
    return Labelled([*labels_by_text], [*labels_by_text.values()])


def take_sample(data: Labelled, size: int, seed: int) -> Labelled:
    """Samples ``size`` sentences, in the file's order; labels keep their shares, at least one sentence each."""
    if size >= len(data.texts):
        return data
    rng = generator(EVALUATED_SPLIT, seed)
    labels = np.array(data.labels)
    groups = [np.flatnonzero(labels == name) for name in data.names]
    shares = np.array([size * len(group) / len(labels) for group in groups])
    counts = np.maximum(1, shares.astype(int))
    counts[np.argsort(counts - shares, kind="stable")[: max(0, size - counts.sum())]] += 1
    chosen = [rng.permutation(group)[:count] for group, count in zip(groups, counts, strict=True)]
    places = sorted(np.concatenate(chosen).tolist())
    return Labelled([data.texts[i] for i in places], [data.labels[i] for i in places])


def place_sentences(
    vectors: np.ndarray, labels: Sequence[str], *, perplexity: float = PERPLEXITY, seed: int = 0
) -> tuple[np.ndarray, Agreement]:
    """Projects ``vectors`` (n, D) of any length to the map, (n, 2); also returns the agreement of ``labels``.

    Raises:
        UserError: if there are too few sentences for the perplexity.
    """
    from sklearn.decomposition import PCA  # late: takes seconds, and commands check arguments first
    from sklearn.manifold import TSNE

    if len(vectors) <= 3 * perplexity:
        text = f"must be below a third of the {len(vectors)} sentences, got {perplexity:g}"
        raise UserError(text, key="perplexity")
    points = vectors = normalise(vectors)
    if vectors.shape[1] > COMPONENTS < len(vectors):
        points = PCA(COMPONENTS, random_state=seed).fit_transform(vectors)
    points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
    guess = 100.0 * Counter(labels).most_common(1)[0][1] / len(labels)
    return points, Agreement(compute_agreement(vectors, labels), compute_agreement(points, labels), guess)


def compute_agreement(points: np.ndarray, labels: Sequence[str], k: int = NEIGHBOURS) -> float:
    """Computes the percentage of points with the most frequent label of their k nearest neighbours.

    Args:
        points: points of shape (n, D), compared by Euclidean distance.
        labels: n labels.
        k: number of neighbours; ties go to the label of the nearest.
    """
    # No classifier is trained: neighbourhoods are what a t-SNE map keeps.
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(k, len(points) - 1)).fit(points).kneighbors(return_distance=False)
    majority = [Counter(labels[i] for i in row).most_common(1)[0][0] for row in near]  # of others, without itself
    return 100.0 * float(np.mean(np.array(majority) == np.array(labels)))


def scatter(axes: Axes, points: np.ndarray, data: Labelled, size: float = 1.0) -> None:
    """Draws ``points`` (n, 2) with a colour (and, beyond seven, a shape) per label, named at its median.

    ``size`` scales dots and names; small panels need less than 1.
    """
    styles = product(plots.MARKERS, COLOURS)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
    for name, (shape, colour) in zip(data.names, cycle(styles), strict=False):
        group = points[np.array(data.labels) == name]
        dot = size * float(np.clip(110 / np.sqrt(len(points)), 2, 5))
        axes.plot(*group.T, shape, color=colour, markersize=dot, markeredgewidth=0, alpha=0.75)
        x, y = np.median(group, axis=0)
        text = axes.text(x, y, printable(name), color=colour, bbox=box, parse_math=False)
        text.set(ha="center", va="center", fontsize=8 * size, fontweight="bold", zorder=3)
    axes.set(xticks=[], yticks=[])  # positions in a map have no unit
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal", adjustable="datalim")


def evaluate_map(
    model: Model,
    *,
    data: str,
    labels: Sequence[str] | None = None,
    sample: Count = 2000,
    perplexity: Annotated[float, Field(ge=1)] = PERPLEXITY,
    seed: Seed = 0,
    folder: str = "maps",
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Draws a map of labelled sentences, and computes how often neighbours have the same label.

    Args:
        model: model that encodes the sentences.
        data: file of labelled sentences.
        labels: labels that are shown; None: all.
        sample: largest number of sentences.
        perplexity: perplexity of t-SNE.
        seed: seed of the sample and the map.
        folder: folder of the pictures.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        The fields of ``Agreement``.

    Raises:
        UserError: if the data cannot be read, or a picture cannot be written.
    """
    path = Path(data).expanduser()
    sentences = take_sample(read(path, labels), sample, seed)
    points, scores = place_sentences(
        model.rows(sentences.texts), sentences.labels, perplexity=perplexity, seed=seed
    )
    name = f"{path.name.split('.')[0]}-{model.name}"
    with plots.suite_style():
        figure = plots.new_figure(name, f"{len(points):,} sentences", 2 * plots.PANEL)
        scatter(figure.subplots(), points, sentences)
    frame = pd.DataFrame({"label": sentences.labels, "x": points[:, 0], "y": points[:, 1]})
    plots.save(figure, Path(folder).expanduser() / re.sub(r"[^\w.+-]+", "_", name), frame)
    return scores._asdict()


draw_maps = make_command(evaluate_map, NOTES)
