"""A map of labelled sentences: a plot of their vectors in two dimensions by t-SNE (GenSen's figure 1).

    min KL(P || Q),   p_ij by Gaussians of the given perplexity around x_i,   q_ij ~ 1 / (1 + |y_i - y_j|^2)

van der Maaten and Hinton (2008), in scikit-learn's implementation. Lines of the file are label, tab, text. Vectors
are scaled to length 1, so that distances order pairs as cosines do. Vectors wider than 50 are first reduced to
their first 50 principal components, as in that paper's section 4.2 (30 there).

A t-SNE map shows neighbourhoods. Sizes of clusters and distances between them mean nothing, and clusters appear
even in noise. So the plot also reports how often a sentence has the majority label of its nearest neighbours, in
the vectors and in the map, next to the share of the most frequent label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from analysis import plots
from analysis.model_names import Names
from analysis.models import ModelOptions, open_models
from analysis.quick import normalise
from analysis.reporting.rendering import write_result
from analysis.senteval.files.loaders import stream
from data.display import printable
from data.errors import UserError
from data.randomness import EVALUATED_SPLIT, generator
from data.ranges import Count, Seed

PERPLEXITY = 30.0
COMPONENTS = 50
NEIGHBOURS = 10
# Okabe and Ito's (2008) colours with grey for black, without yellow, which is hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
SHAPES = "o^sDvXP"
MOST_LABELS = len(COLOURS) * len(SHAPES)


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


def read(path: Path, wanted: Sequence[str] | None = None) -> Labelled:
    """Reads the distinct sentences of a file; if ``wanted`` labels are given, only those.

    Raises:
        UserError: if a line has no tab, a wanted label is missing, or there are fewer than two or too many labels.
    """
    found: dict[str, str] = {}
    for line in stream(path):
        if line.text.strip():
            label, text = line.columns(2, "a label and a text, separated by a tab")[:2]
            if text.strip() and (not wanted or label in wanted):
                found.setdefault(text, label)
    names = set(found.values())
    if missing := sorted(set(wanted or ()) - names):
        raise UserError(f"{path} has no label {', '.join(missing)}.")
    if not 2 <= len(names) <= MOST_LABELS:
        raise UserError(
            f"{path} has {len(names)} labels; a map shows 2 to {MOST_LABELS}: labels=[a,b] chooses some."
        )
    return Labelled(list(found), list(found.values()))


def take_sample(data: Labelled, size: int, seed: int) -> Labelled:
    """Samples ``size`` sentences, in the file's order; labels keep their shares, at least one sentence each."""
    if size >= len(data.texts):
        return data
    rng = generator(EVALUATED_SPLIT, seed)
    places: list[int] = []
    labels = np.array(data.labels)
    groups = [np.flatnonzero(labels == name) for name in data.names]
    shares = np.array([size * len(group) / len(labels) for group in groups])
    counts = np.maximum(1, shares.astype(int))
    counts[np.argsort(counts - shares, kind="stable")[: max(0, size - counts.sum())]] += 1
    for group, count in zip(groups, counts, strict=True):
        places += rng.permutation(group)[:count].tolist()
    places.sort()
    return Labelled([data.texts[i] for i in places], [data.labels[i] for i in places])


def project(vectors: np.ndarray, *, perplexity: float = PERPLEXITY, seed: int = 0) -> np.ndarray:
    """Projects unit ``vectors`` of shape (n, D) to the map, float32 of shape (n, 2).

    Raises:
        UserError: if there are too few sentences for the perplexity.
    """
    from sklearn.decomposition import PCA  # late: takes seconds, and commands check arguments first
    from sklearn.manifold import TSNE

    if len(vectors) <= 3 * perplexity:
        raise UserError(
            f"There are {len(vectors)} sentences: perplexity= must be below a third of that. Got {perplexity:g}."
        )
    if vectors.shape[1] > COMPONENTS < len(vectors):
        vectors = PCA(COMPONENTS, random_state=seed).fit_transform(vectors)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


def agreement(points: np.ndarray, labels: Sequence[str], k: int = NEIGHBOURS) -> float:
    """Computes the percentage of points with the most frequent label of their k nearest neighbours.

    Args:
        points: points of shape (n, D), compared by Euclidean distance.
        labels: n labels.
        k: number of neighbours; ties go to the label of the nearest.
    """
    # No classifier is trained: neighbourhoods are what a t-SNE map keeps.
    from sklearn.neighbors import NearestNeighbors

    k = min(k, len(points) - 1)
    near = NearestNeighbors(n_neighbors=k).fit(points).kneighbors(return_distance=False)  # (n, k), without itself
    found = (Counter(labels[i] for i in row).most_common(1)[0][0] for row in near)
    return 100.0 * sum(one == own for one, own in zip(found, labels, strict=True)) / len(points)


def place_sentences(
    vectors: np.ndarray, labels: Sequence[str], *, perplexity: float = PERPLEXITY, seed: int = 0
) -> tuple[np.ndarray, Agreement]:
    """Projects ``vectors`` (n, D) of any length to the map, (n, 2); also returns the agreement of ``labels``."""
    vectors = normalise(vectors)
    points = project(vectors, perplexity=perplexity, seed=seed)
    guess = 100.0 * Counter(labels).most_common(1)[0][1] / len(labels)
    return points, Agreement(agreement(vectors, labels), agreement(points, labels), guess)


def draw(points: np.ndarray, data: Labelled, scores: Agreement, *, model: str, source: str) -> Figure:
    """Draws one map, with the agreement of labels below it."""
    with plots.look():
        figure = Figure(figsize=(plots.WIDTH, 0.72 * plots.WIDTH))
        axes = figure.subplots()
        axes.set_label("map")
        scatter(axes, points, data)
        axes.set_title(_drawn(f"{model}: {source}, {len(points):,} sentences"))
        axes.set_xlabel(
            f"label named by {NEIGHBOURS} nearest neighbours: {scores.vectors:.1f} % in the vectors, "
            f"{scores.map:.1f} % in the map, {scores.guess:.1f} % by guessing"
        )
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2.0, handletextpad=0.2, borderaxespad=0.4
        )
        return figure


def scatter(axes: Axes, points: np.ndarray, data: Labelled, size: float = 1.0) -> None:
    """Draws ``points`` (n, 2) with a colour (and, beyond seven, a shape) per label, named at its densest point.

    ``size`` scales dots and names; small panels need less than 1.
    """
    names = data.names
    labels = np.array(data.labels)
    for number, name in enumerate(names):
        axes.plot(
            *points[labels == name].T,
            linestyle="none",
            marker=SHAPES[number // len(COLOURS)],
            color=COLOURS[number % len(COLOURS)],
            markersize=size * float(np.clip(110 / np.sqrt(len(points)), 2.0, 5.0)),
            markeredgewidth=0,
            alpha=0.75,
            label=_drawn(name),
        )
    for number, name in enumerate(names):
        axes.annotate(
            _drawn(name),
            _densest(points[labels == name]),
            ha="center",
            va="center",
            fontsize=8 * size,
            fontweight="bold",
            color=COLOURS[number % len(COLOURS)],
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        )
    axes.set(xticks=[], yticks=[])  # positions in a map have no unit
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal", adjustable="datalim")


def _drawn(text: str) -> str:
    """Escapes ``text`` for Matplotlib, which reads text between dollar signs as a formula."""
    return printable(text).replace("$", r"\$")


def _densest(points: np.ndarray) -> tuple[float, float]:
    """Returns the one of ``points`` (n, 2) with the smallest distance to its NEIGHBOURS-th neighbour."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(points))).fit(points)
    x, y = points[near.kneighbors(points)[0][:, -1].argmin()]
    return float(x), float(y)


def draw_maps(
    *,
    models: Names,
    data: str,
    labels: Names | None = None,
    sample: Count = 2000,
    perplexity: Annotated[float, Field(ge=1)] = PERPLEXITY,
    seed: Seed = 0,
    folder: str = "maps",
    out: str | None = None,
    **options: Unpack[ModelOptions],
) -> None:
    """Draws a map for each model, and writes the agreement of labels with neighbours to ``out``.

    Args:
        models: names of models.
        data: file of labelled sentences.
        labels: labels that are shown; None: all.
        sample: largest number of sentences.
        perplexity: perplexity of t-SNE.
        seed: seed of the sample and the map.
        folder: folder of the pictures.
        out: JSON file.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the data or a model cannot be read, or a picture cannot be written.
    """
    path = Path(data).expanduser()
    sentences = take_sample(read(path, labels), sample, seed)
    source = re.sub(r"\.(tsv|txt)(\.gz)?$", "", path.name)
    records = []
    for model in open_models(models, **options):
        points, scores = place_sentences(
            model.rows(sentences.texts), sentences.labels, perplexity=perplexity, seed=seed
        )
        figure = draw(points, sentences, scores, model=model.name, source=source)
        stem = Path(folder).expanduser() / re.sub(r"[^\w.+-]+", "_", f"{source}-{model.name}")
        table = pd.DataFrame({"label": sentences.labels, "x": points[:, 0], "y": points[:, 1]})
        files = [str(file) for file in plots.save(figure, stem, table)]
        records.append({"model": model.facts(), **scores._asdict(), "k": NEIGHBOURS, "files": files})
        print("\n".join(files))
        print(
            f"{model.name}: labels predicted by {NEIGHBOURS} neighbours are right for {scores.vectors:.1f} % "
            f"in the vectors, {scores.map:.1f} % in the map, {scores.guess:.1f} % by guessing."
        )
    facts = {"perplexity": perplexity, "seed": seed, "sentences": len(sentences.texts), "data": data}
    write_result(out, {"projection_map": records, **facts})
