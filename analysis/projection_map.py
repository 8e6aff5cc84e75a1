"""A map of labelled sentences: a plot of their vectors in two dimensions by t-SNE (GenSen's figure 1).

    min KL(P || Q),   p_ij by Gaussians of a perplexity of 30 around x_i,   q_ij ~ 1 / (1 + |y_i - y_j|^2)

van der Maaten and Hinton (2008), in scikit-learn's implementation. Lines of the file are label, tab, text. Vectors
are scaled to length 1, so that distances order pairs as cosines do, and reduced to their first 50 principal
components, as in that paper's section 4.2 (30 there). The perplexity is less for fewer than 121 sentences.

A t-SNE map shows neighbourhoods. Sizes of clusters and distances between them mean nothing, and clusters appear
even in noise. So an evaluation also computes how often a sentence has the majority label of its nearest
neighbours, in the vectors and in the map, next to the share of the most frequent label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import plots
from analysis.geometry import normalise
from analysis.models import Model
from analysis.reports import ReportOptions, read_columns
from data.errors import UserError
from data.ranges import Count, ExpandedPath, Seed

COLUMNS = {"label": str, "text": str}
PERPLEXITY = 30.0
COMPONENTS = 50
NEIGHBOURS = 10


def read_labelled(path: Path) -> pd.DataFrame:
    """Reads the distinct sentences of a file: columns label and text.

    Raises:
        UserError: if the lines are not label, tab, text.
    """
    return read_columns(path, COLUMNS, names=[*COLUMNS]).drop_duplicates("text")


def take_sample(sentences: pd.DataFrame, size: int, seed: int) -> pd.DataFrame:
    """Samples at most ``size`` sentences, in their order."""
    return sentences.sample(min(size, len(sentences)), random_state=seed).sort_index()


def place_sentences(
    vectors: np.ndarray, labels: Sequence[str], *, seed: int = 0
) -> tuple[np.ndarray, dict[str, float]]:
    """Projects vectors to the map, and computes the agreement of labels.

    Args:
        vectors: of shape (n, D) and any length, n >= 2.
        labels: n labels.
        seed: seed of the map.

    Returns:
        The map, of shape (n, 2), and the percentages of ``evaluate_map``.

    Raises:
        UserError: if there are fewer than two.
    """
    from sklearn.decomposition import PCA  # late: takes seconds, and commands check arguments first
    from sklearn.manifold import TSNE

    if len(vectors) < 2:
        raise UserError("fewer than two sentences", key="data")
    vectors = normalise(vectors)
    points = PCA(min(COMPONENTS, *vectors.shape), random_state=seed).fit_transform(vectors)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 4)
    init = "pca" if np.ptp(points) else "random"  # equal vectors have no components
    points = TSNE(2, perplexity=perplexity, init=init, random_state=seed).fit_transform(points)
    guess = 100.0 * Counter(labels).most_common(1)[0][1] / len(labels)
    near = compute_agreement(vectors, labels)
    return points, {"vectors": near, "map": compute_agreement(points, labels), "guess": guess}


def compute_agreement(points: np.ndarray, labels: Sequence[str]) -> float:
    """Computes the percentage of points with the most frequent label of their NEIGHBOURS nearest.

    Of several, that of the nearest counts.

    Args:
        points: points of shape (n, D), compared by Euclidean distance.
        labels: n labels.
    """
    # No classifier is trained: neighbourhoods are what a t-SNE map keeps.
    from sklearn.neighbors import NearestNeighbors

    names = np.array(labels)
    count = min(NEIGHBOURS, len(points) - 1)
    near = NearestNeighbors(n_neighbors=count).fit(points).kneighbors(return_distance=False)
    majority = [Counter(row).most_common(1)[0][0] for row in names[near]]  # of others, without itself
    return 100.0 * float(np.mean(names == majority))


def scatter(axes: Axes, points: np.ndarray, labels: Sequence[str]) -> None:
    """Draws ``points`` (n, 2) with a colour and a shape per label, named at its median."""
    for name, style in plots.mark_styles(sorted({*labels}), {}).items():
        group = points[np.array(labels) == name]
        axes.plot(*group.T, **style, linestyle="", markersize=3, markeredgewidth=0, alpha=0.75)
        x, y = np.median(group, axis=0)
        axes.text(x, y, name, color=style["color"], ha="center", fontweight="bold")
    axes.set(xticks=[], yticks=[])  # positions in a map have no unit
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal", adjustable="datalim")


def evaluate_map(
    model: Model,
    *,
    data: ExpandedPath,
    sample: Count = 2000,
    seed: Seed = 0,
    folder: ExpandedPath = "maps",
    **options: Unpack[ReportOptions],
) -> dict[str, float]:
    """Draws a map of labelled sentences, and computes how often neighbours have the same label.

    Args:
        model: model that encodes the sentences.
        data: file of labelled sentences.
        sample: largest number of sentences.
        seed: seed of the sample and the map.
        folder: folder of the pictures.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        Sentences, in percent, with the most frequent label of their ten nearest neighbours, in the "vectors" and
        in the "map", and with the most frequent label of all ("guess").

    Raises:
        UserError: if the data cannot be read, or a picture cannot be written.
    """
    path = Path(data)
    sentences = take_sample(read_labelled(path), sample, seed)
    labels = sentences["label"].tolist()
    points, scores = place_sentences(model.rows(sentences["text"].tolist()), labels, seed=seed)
    name = f"{path.name.split('.')[0]}-{model.name}"
    with plots.suite_style():
        figure = plots.new_figure(name, f"{len(points):,} sentences", 5.0)  # inches
        scatter(figure.subplots(), points, labels)
    frame = pd.DataFrame({"label": labels, "x": points[:, 0], "y": points[:, 1]})
    plots.save(figure, Path(folder) / re.sub(r"[^\w.+-]+", "_", name), frame)
    return scores
