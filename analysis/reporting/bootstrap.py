"""Paired bootstrap of the difference of two models on each task and in the mean, from their saved predictions.

Test examples are resampled with replacement, the same ones for both models (Efron & Tibshirani 1993; Koehn 2004).
Subsets of STS12-16 and outer folds keep their sizes. The percentile interval measures how much the difference
varies with the test examples, not with training. Tasks are resampled independently, also for averages, whose
intervals are therefore slightly too narrow if tasks share examples (SICK-E and SICK-R).

Accuracy and F1 depend only on the counts of each kind of outcome in a resample. These counts are sampled from a
multinomial, which gives the same distribution as sampling examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.model_names import Names
from analysis.reporting.matching import read_named, require_protocol
from analysis.senteval.averages import LISTED, RULES, Average, average_title
from analysis.senteval.records import PUBLISHED, incomparable
from analysis.senteval.results import FILE, read_results
from analysis.senteval.scores import metric_name
from data.display import bar, printable
from data.errors import UserError, reading
from data.ranges import Seed

RESAMPLES = 10_000
LEVEL = 0.95
FOLDER = "predictions"
_CELLS = 100_000  # counts at a time: fits in the cache


class Predictions(NamedTuple):
    """A model's predictions for n test examples.

    Attributes:
        gold: classes or gold scores, of shape (n,).
        predicted: probabilities of shape (n, C), or scores of shape (n,).
        strata: subset or outer fold, of shape (n,); zeros if the task has neither.
        subsets: true if ``strata`` are subsets.
    """

    gold: np.ndarray
    predicted: np.ndarray
    strata: np.ndarray
    subsets: bool

    def same_examples(self, other: Predictions) -> bool:
        """Returns True if gold scores and strata are equal, as for predictions of the same examples."""
        return np.array_equal(self.gold, other.gold) and np.array_equal(self.strata, other.strata)


class Difference(NamedTuple):
    """Score of A minus score of B in points, its interval, and the share of resamples in which A is ahead."""

    difference: float
    low: float
    high: float
    share_above_zero: float


def read_predictions(path: Path) -> Predictions:
    """Reads ``predictions/<task>.npz``: "gold", "predicted", and "subset" or "fold" if the task has them.

    Raises:
        UserError: if it cannot be read or has another content.
    """
    with reading("file of predictions", path), np.load(path, allow_pickle=False) as arrays:
        gold, predicted = arrays["gold"], arrays["predicted"]
        name = next((name for name in ("subset", "fold") if name in arrays), None)
        strata = np.zeros(gold.shape, dtype=np.int64) if name is None else arrays[name]
        if gold.ndim != 1 or predicted.ndim not in (1, 2) or not gold.shape == predicted.shape[:1] == strata.shape:
            raise ValueError("its arrays have other shapes")
        if not predicted.size or not all(np.isfinite(array).all() for array in (gold, predicted, strata)):
            raise ValueError("it must hold finite numbers")
        return Predictions(gold, predicted, strata, name == "subset")


def metrics(task: str, predictions: Predictions) -> tuple[str, ...]:
    """Returns the metrics for comparing two models' predictions on a task, the usual one first."""
    if predictions.predicted.ndim == 2:
        return ("f1", "accuracy") if task == "MRPC" else ("accuracy",)
    if predictions.subsets:
        return "spearman.mean", "pearson.mean", "spearman.all"
    return "spearman", "pearson"


def _resampled(
    a: Predictions, b: Predictions, metric: str, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Computes the observed difference A - B, then that of each resample, as shares, of shape (1 + resamples,).

    An undefined correlation counts as 0, as in the toolkit.
    """
    groups = np.zeros_like(a.strata) if metric.endswith(".all") else a.strata
    strata = [np.flatnonzero(groups == value) for value in np.unique(groups)]
    found = np.zeros(1 + resamples)
    resampled = found[1:]
    for members in strata:
        frequency, score = _STATISTICS[metric.split(".")[0]](
            a.gold[members], a.predicted[members], b.predicted[members]
        )
        rows = max(1, _CELLS // len(frequency))
        found[0] += float(score(frequency[None, :])[0]) / len(strata)
        for start in range(0, resamples, rows):
            part = resampled[start : start + rows]
            part += score(_sample_counts(frequency, len(part), rng)) / len(strata)
    return found


def _difference(found: np.ndarray) -> Difference:
    observed, resampled = found[0], found[1:]
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(100 * float(observed), 100 * float(low), 100 * float(high), float(np.mean(resampled > 0)))


def _sample_counts(frequency: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Samples n examples with replacement ``rows`` times; returns counts of shape (rows, outcomes)."""
    n, outcomes = int(frequency.sum()), len(frequency)
    if outcomes < n:
        return rng.multinomial(n, frequency / n, size=rows).astype(np.float64)
    places = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


# A statistic takes gold and the predictions of A and B. It returns the frequency of each kind of outcome and a
# function from counts of the outcomes, of shape (R, outcomes), to A's score minus B's, of shape (R,).
Score = Callable[[np.ndarray], np.ndarray]
Statistic = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, Score]]


def _accuracy(gold: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Score]:
    gain = (a.argmax(axis=1) == gold).astype(np.int64) - (b.argmax(axis=1) == gold)
    kinds, frequency = np.unique(gain, return_counts=True)
    return frequency, lambda counts: counts @ kinds / len(gold)


def _f1(gold: np.ndarray, a: np.ndarray, b: np.ndarray, weight: float = 1.0) -> tuple[np.ndarray, Score]:
    """Returns the statistic of F1, or of its weighted mean with accuracy if ``weight`` is below 1."""
    outcomes = np.stack([gold, a.argmax(axis=1), b.argmax(axis=1)], axis=1)
    kinds, frequency = np.unique(outcomes, axis=0, return_counts=True)
    positive, of_a, of_b = (column == 1 for column in kinds.T)

    def score(counts: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        hits, all_predicted, all_gold = (counts @ which for which in (positive & predicted, predicted, positive))
        f1 = 2 * hits / np.maximum(all_predicted + all_gold, 1)
        return weight * f1 + (1 - weight) * (counts @ (positive == predicted)) / len(gold)

    return frequency, lambda counts: score(counts, of_a) - score(counts, of_b)


def _pearson(gold: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Score]:
    standard, of_a, of_b = _standardised(gold), _standardised(a), _standardised(b)

    def correlation(counts: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        x, y = standard, predicted
        sums = counts @ np.stack([x, y, x * x, y * y, x * y], axis=1) / len(gold)
        mean_x, mean_y, xx, yy, xy = sums.T
        return _ratio(xy - mean_x * mean_y, xx - mean_x**2, yy - mean_y**2)

    return np.ones(len(gold)), lambda counts: correlation(counts, of_a) - correlation(counts, of_b)


def _spearman(gold: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Score]:
    ranks = [_ranker(values) for values in (gold, a, b)]

    def difference(counts: np.ndarray) -> np.ndarray:
        x, of_a, of_b = (rank(counts) for rank in ranks)
        weighted = counts * x
        xx = np.einsum("rn,rn->r", weighted, x)

        def correlation(y: np.ndarray) -> np.ndarray:
            yy = np.einsum("rn,rn,rn->r", counts, y, y)
            return _ratio(np.einsum("rn,rn->r", weighted, y), xx, yy)

        return correlation(of_a) - correlation(of_b)

    return np.ones(len(gold)), difference


_STATISTICS: dict[str, Statistic] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "accuracy+f1": partial(_f1, weight=0.5),
    "pearson": _pearson,
    "spearman": _spearman,
}


def _standardised(values: np.ndarray) -> np.ndarray:
    centred = values.astype(np.float64) - values.mean(dtype=np.float64)
    return centred / (centred.std() or 1.0)


def _ratio(covariance: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    defined = (first > 1e-12) & (second > 1e-12)
    return np.where(defined, covariance / np.sqrt(np.where(defined, first * second, 1.0)), 0.0)


def _ranker(values: np.ndarray) -> Score:
    """Returns a function from counts (R, n) of the examples to their centred ranks (ties: mean)."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(values[order]) != 0])
    _, place = np.unique(values, return_inverse=True)

    def ranks(counts: np.ndarray) -> np.ndarray:
        tied = np.add.reduceat(counts[:, order], starts, axis=1)
        upto = np.cumsum(tied, axis=1)
        return (upto - tied / 2 - len(values) / 2)[:, place]

    return ranks


def compare_folders(
    a: Path,
    b: Path,
    tasks: Sequence[str] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> dict[tuple[str, str], Difference]:
    """Computes the differences by task and metric over ``tasks``, or all tasks with predictions in both folders.

    The averages LISTED follow if at least half of their tasks are there, keyed by ``Average.label`` and "mean".
    The caption task has no predictions: its scores are means over splits of images.

    ``progress`` is called with the share done, 0 to 1.

    Raises:
        UserError: in one line, if there is nothing to compare.
    """
    found = [{path.stem for path in (folder / FOLDER).glob("*.npz")} for folder in (a, b)]
    for folder, names in zip((a, b), found, strict=True):
        if lacking := [task for task in tasks if task not in names]:
            if lacking[0] == "ImageCaptionRetrieval":
                raise UserError("ImageCaptionRetrieval has no predictions: its scores are means over images.")
            raise UserError(f"There is no {folder / FOLDER / lacking[0]}.npz: evaluate {lacking[0]} first.")
        if not names:
            raise UserError(
                f"There are no predictions in {folder / FOLDER}: name a folder that an evaluation wrote."
            )
    common = [task for task in PUBLISHED if task in found[0] & found[1] and (not tasks or task in tasks)]
    if not common:
        raise UserError(f"{a} and {b} have no task in common.")
    resampled: dict[tuple[str, str], np.ndarray] = {}
    for done, task in enumerate(common, start=1):
        place = list(PUBLISHED).index(task)
        of_a, of_b = (read_predictions(folder / FOLDER / f"{task}.npz") for folder in (a, b))
        # Averages need both for each resample.
        both = ["accuracy+f1"] if "f1" in metrics(task, of_a) else []
        if not of_a.same_examples(of_b) or of_a.predicted.ndim != of_b.predicted.ndim:
            raise UserError(f"other test examples of {task} than {a}", key=str(b))
        for metric in (*metrics(task, of_a), *both):
            rng = np.random.default_rng([seed, place])
            resampled[task, metric] = _resampled(of_a, of_b, metric, resamples, rng)
        if progress:
            progress(done / len(common))
    shown = {
        (task, metric): _difference(values)
        for (task, metric), values in resampled.items()
        if metric != "accuracy+f1"
    }
    return shown | _averages(resampled, _incomparable_tasks((a, b)))


def _incomparable_tasks(folders: Sequence[Path]) -> set[str]:
    """Returns the tasks not comparable with printed scores, by the results next to the predictions."""
    found = [read_results(folder).tasks for folder in folders if (folder / FILE).exists()]
    return {task for tasks in found for task, record in tasks.items() if incomparable(task, record)}


def _averages(
    resampled: Mapping[tuple[str, str], np.ndarray], apart: Collection[str]
) -> dict[tuple[str, str], Difference]:
    """Computes the differences of the averages LISTED from the output of ``_resampled`` by task and metric."""
    result = {}
    for rule in (RULES[name] for name in LISTED):
        [metrics] = rule.groups
        keys = {task: (task, "accuracy" if metric == "test" else metric) for task, metric in metrics.items()}
        known = {task: resampled[key] for task, key in keys.items() if key in resampled}
        missing = tuple(task for task in keys if task not in known)
        mean = Average(rule, 0.0, tuple(known), missing, tuple(task for task in known if task in apart))
        if known and mean.telling:
            result[mean.label, "mean"] = _difference(np.mean(list(known.values()), axis=0))
    return result


def difference_table(differences: dict[tuple[str, str], Difference], a: str, b: str) -> Table:
    """Builds the terminal's table of ``differences``; intervals without 0 are coloured."""
    table = Table(
        title=escape(printable(f"{a} − {b}")),
        title_justify="left",
        header_style="bold",
        caption=f"Differences in points, with their {LEVEL:.0%} intervals, from {RESAMPLES:,} paired resamples of "
        "the test examples; last column: share of the resamples in which the first model has the higher score",
        caption_justify="left",
    )
    for name in ("task", "metric"):
        table.add_column(name)
    for name in ("difference", "from", "to", f"{escape(printable(a))} ahead"):
        table.add_column(name, justify="right")
    for (task, metric), found in differences.items():
        colour = "green" if found.low > 0 else "red" if found.high < 0 else ""
        numbers = [f"{value:+.2f}" for value in found[:3]]
        table.add_row(
            average_title(task), metric_name(metric), *numbers, f"{found.share_above_zero:.1%}", style=colour
        )
    return table


def report_differences(*, results: Names, tasks: Names | None = None, seed: Seed = 0) -> None:
    """Prints the table of the differences of two results.

    Args:
        results: two folders of results, or NAME=FOLDER.
        tasks: names of tasks; None: all with predictions in both.
        seed: seed of the resamples.

    Raises:
        UserError: if they are not two results of one protocol with predictions.
    """
    stored = read_named(results)
    if len(stored) != 2:
        raise UserError(f"two results are compared, {len(stored)} are named", key="results")
    require_protocol(stored)
    a, b = (one.folder for one in stored)
    with bar("resampling") as progress:
        differences = compare_folders(a, b, tasks or (), seed=seed, progress=progress)
    titles = (f"{one.results.model.get('name')} ({one.results.protocol})" for one in stored)
    Console().print(difference_table(differences, *titles))
