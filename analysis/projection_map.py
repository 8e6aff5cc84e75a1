"""A map of labelled sentences: their vectors in two dimensions by t-SNE, as a picture (GenSen's figure 1).

    min KL(P || Q),   p_ij by Gaussians of the wanted perplexity around x_i,   q_ij ~ 1 / (1 + |y_i - y_j|^2)

    python -m analysis.projection_map runs/<folder> --data ag_news.tsv.gz --folder maps --sample 2000

van der Maaten and Hinton (2008), scikit-learn's. The file has a label, a tab and a text a line. Vectors are scaled
to length 1, so that their distances order pairs as cosines do; where they are wider than 50 they are first reduced
to their first 50 principal components, as in that paper's section 4.2 (30 there).

A t-SNE map shows neighbourhoods: sizes of clusters and distances between them mean nothing, and it finds clusters
in noise. So beside the picture stands how often a sentence has the label of most of its nearest neighbours, in the
vectors themselves and in the map, and what guessing gives.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import command
from analysis.figures import style
from analysis.quick import normalise
from data.display import printable
from data.errors import UserError, reason
from data.randomness import EVALUATED_SPLIT, generator

SAMPLE = 2000
PERPLEXITY = 30.0
COMPONENTS = 50
NEIGHBOURS = 10
# Okabe and Ito's (2008) hues, grey in place of their black, without yellow, which is hardly seen on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
SHAPES = "o^sDvXP"
MOST_LABELS = len(COLOURS) * len(SHAPES)


class Agreement(NamedTuple):
    """How often, in percent, neighbours name a sentence's label: in the vectors, in the map, by guessing."""

    vectors: float
    map: float
    guess: float


class Labelled(NamedTuple):
    """n texts and their labels; ``names`` are the different labels in order, so that each keeps its colour."""

    texts: list[str]
    labels: list[str]

    @property
    def names(self) -> list[str]:
        return sorted(set(self.labels), key=lambda name: (int(name) if name.isdecimal() else -1, name))


def read(path: Path, wanted: Sequence[str] | None = None) -> Labelled:
    """The sentences of a file, each different text once; of the ``wanted`` labels alone, if any are given.

    Raises:
        UserError: if a line has no tab, a label is missing, or fewer than two or too many labels are there.
    """
    found: dict[str, str] = {}
    for line in command.stream(path):
        if line.text.strip():
            label, text = line.columns(2, "a label and a text, parted by a tab")[:2]
            if text.strip() and (not wanted or label in wanted):
                found.setdefault(text, label)
    names = set(found.values())
    if missing := sorted(set(wanted or ()) - names):
        raise UserError(f"{path} has no label {', '.join(missing)}.")
    if not 2 <= len(names) <= MOST_LABELS:
        raise UserError(f"{path} has {len(names)} labels; a map shows 2 to {MOST_LABELS}: --labels chooses some.")
    return Labelled(list(found), list(found.values()))


def sample(data: Labelled, size: int, seed: int) -> Labelled:
    """``size`` sentences drawn by ``seed``, in the file's order; labels keep their shares, one each at least."""
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
    return Labelled(*map(list, zip(*((data.texts[i], data.labels[i]) for i in sorted(places)), strict=True)))


def project(vectors: np.ndarray, *, perplexity: float = PERPLEXITY, seed: int = 0) -> np.ndarray:
    """Places in the map, float32 of shape (n, 2), of unit ``vectors`` of shape (n, D).

    Raises:
        UserError: if there are too few sentences for the perplexity.
    """
    from sklearn.decomposition import PCA  # late: it takes seconds, and commands check first
    from sklearn.manifold import TSNE

    if len(vectors) <= 3 * perplexity:
        raise UserError(
            f"There are {len(vectors)} sentences: --perplexity must be below a third of that. Got {perplexity:g}."
        )
    if vectors.shape[1] > COMPONENTS < len(vectors):
        vectors = PCA(COMPONENTS, random_state=seed).fit_transform(vectors)
    return TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


def agreement(points: np.ndarray, labels: Sequence[str], k: int = NEIGHBOURS) -> float:
    """Percentage of points whose label is the commonest of their k nearest others.

    Args:
        points: of shape (n, D); near by Euclidean distance.
        labels: n of them.
        k: neighbours; of labels that are equally common the one of the nearest counts.
    """
    from sklearn.neighbors import NearestNeighbors

    k = min(k, len(points) - 1)
    near = NearestNeighbors(n_neighbors=k).fit(points).kneighbors(return_distance=False)  # (n, k), not itself
    hits = 0
    for own, row in zip(labels, near, strict=True):
        hits += Counter(labels[i] for i in row).most_common(1)[0][0] == own
    return 100.0 * hits / len(points)


def placed(
    vectors: np.ndarray, labels: Sequence[str], *, perplexity: float = PERPLEXITY, seed: int = 0
) -> tuple[np.ndarray, Agreement]:
    """Places in the map, (n, 2), of ``vectors`` (n, D) of any length, and how well neighbours name ``labels``."""
    vectors = normalise(vectors)
    points = project(vectors, perplexity=perplexity, seed=seed)
    guess = 100.0 * Counter(labels).most_common(1)[0][1] / len(labels)
    return points, Agreement(agreement(vectors, labels), agreement(points, labels), guess)


def draw(points: np.ndarray, data: Labelled, scores: Agreement, *, model: str, source: str) -> Figure:
    """The picture of one map, with how well neighbours name labels below it."""
    with style.look():
        figure = Figure(figsize=(style.WIDTH, 0.72 * style.WIDTH))
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
    """Draws ``points`` (n, 2): a colour (and, beyond seven, a shape) a label, its name where they are densest.

    ``size`` is that of dots and names; a small panel wants less than 1.
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
    axes.set(xticks=[], yticks=[])  # places in a map have no unit
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal", adjustable="datalim")


def _drawn(text: str) -> str:
    """``text`` as Matplotlib shows it, which takes what is between dollar signs for a formula."""
    return printable(text).replace("$", r"\$")


def _densest(points: np.ndarray) -> tuple[float, float]:
    """The one of ``points`` (n, 2) whose NEIGHBOURS nearest lie closest."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(points))).fit(points)
    x, y = points[near.kneighbors(points)[0][:, -1].argmin()]
    return float(x), float(y)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command.parser("analysis.projection_map", __doc__, several=False)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help="label, tab, text a line; .gz too"
    )
    parser.add_argument("--folder", type=Path, default=Path("maps"), help="of the pictures; default: %(default)s")
    parser.add_argument("--labels", nargs="+", metavar="LABEL", help="those shown; default: all")
    parser.add_argument(
        "--sample", type=command.positive, default=SAMPLE, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--perplexity", type=float, default=PERPLEXITY, help="default: %(default)g")
    parser.add_argument("--seed", type=command.whole, default=0, help="of sample and map; default: 0")
    given = parser.parse_args(arguments)
    if not given.perplexity >= 1:
        parser.error(f"argument --perplexity: must be at least 1. Got {given.perplexity:g} instead")

    def work() -> None:
        data = sample(read(given.data, given.labels), given.sample, given.seed)
        model = command.opened(given.model, given)
        vectors = model.rows(data.texts)
        points, scores = placed(vectors, data.labels, perplexity=given.perplexity, seed=given.seed)
        source = re.sub(r"\.(tsv|txt)(\.gz)?$", "", given.data.name)
        figure = draw(points, data, scores, model=model.name, source=source)
        name = re.sub(r"[^\w.+-]+", "_", f"{source}-{model.name}")
        try:
            paths = style.save(figure, given.folder, name)
        except OSError as error:
            raise UserError(
                f"{given.folder} cannot be written ({reason(error)}): --folder names another."
            ) from error
        settings = {"perplexity": given.perplexity, "seed": given.seed, "sentences": len(data.texts)}
        record = {"projection_map": scores._asdict() | {"k": NEIGHBOURS}, "model": model.facts(), **settings}
        command.write(given.out, record | {"data": str(given.data), "files": [str(path) for path in paths]})
        print("\n".join(map(str, paths)))
        print(
            f"Label named by {NEIGHBOURS} nearest neighbours: {scores.vectors:.1f} % in the vectors, "
            f"{scores.map:.1f} % in the map, {scores.guess:.1f} % by guessing."
        )

    return command.finished(work)


if __name__ == "__main__":
    sys.exit(main())
