"""Scores of predictions: accuracy, F1 and correlations, computed and rounded as in the toolkit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_ROUNDING = 1e-6  # relative rounding error of single precision: scores that differ by less count as equal


class Metric(NamedTuple):
    """A score of a task.

    Attributes:
        name: in headings; "" for a task's main score.
        beside: tasks whose tables show it beside the main score.
        compute: computes it in percent from gold and predicted classes of shape (n,), for the tasks of ``beside``,
            which are then of classification; None if a task's record has it anyway.
    """

    name: str
    beside: tuple[str, ...] = ()
    compute: Callable[[np.ndarray, np.ndarray], float] | None = None


def f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Computes the F1 of class 1 in percent, of two arrays of shape (n,)."""
    from sklearn.metrics import f1_score  # late: tables need only the names of metrics

    return 100 * float(f1_score(gold, predicted))


METRICS = {  # by key of a record, "spearman.mean" for a part (``records.measure``)
    "test": Metric(""),
    "dev": Metric(""),
    "accuracy": Metric("accuracy"),
    "f1": Metric("F1", beside=("MRPC",), compute=f1),
    "pearson": Metric("Pearson"),
    "spearman": Metric("Spearman"),
    "dev_pearson": Metric("Pearson"),
    "dev_spearman": Metric("Spearman"),
    "pearson.mean": Metric("mean Pearson"),
    "spearman.mean": Metric("mean Spearman"),
    "pearson.all": Metric("Pearson of all pairs"),
    "spearman.all": Metric("Spearman of all pairs"),
}


def metric_name(key: str) -> str:
    """Returns the name of a metric: "F1", "caption R@5"; its key if it has no entry in METRICS."""
    return METRICS[key].name if key in METRICS else key.removeprefix("recalls.").replace("_r", " R@")


class Correlation(NamedTuple):
    """Pearson and Spearman correlations, -1 .. 1; NaN if undefined (all scores equal), as in the toolkit."""

    pearson: float
    spearman: float


def accuracy(gold: np.ndarray, predicted: np.ndarray, folds: np.ndarray | None = None) -> float:
    """Computes the accuracy in percent, to two digits; with folds the mean over the folds.

    Args:
        gold: classes of shape (n,).
        predicted: probabilities or other scores of shape (n, C).
        folds: each example's outer fold, of shape (n,); None without folds.
    """
    right = predicted.argmax(axis=1) == gold
    if folds is None:
        return round(100 * float(np.mean(right)), 2)
    return mean([round(100 * float(np.mean(right[folds == fold])), 2) for fold in np.unique(folds)])


def mean(scores: Sequence[float]) -> float:
    """Computes the mean to two digits, rounded by NumPy as in the toolkit; Python rounds halves differently."""
    return float(round(np.mean(scores), 2))


def classification(
    task: str, gold: np.ndarray, predicted: np.ndarray, folds: np.ndarray | None = None
) -> dict[str, Any]:
    """Computes ``test``, for MRPC also ``accuracy``, and metrics ``beside`` it; arguments as in ``accuracy``."""
    return _with_other_metrics(task, accuracy(gold, predicted, folds), gold, predicted.argmax(axis=1))


def majority(task: str, gold: np.ndarray) -> dict[str, Any]:
    """Computes ``classification``'s scores of always answering the most frequent class of ``gold``, shape (n,)."""
    classes, counts = np.unique(gold, return_counts=True)
    answers = np.full_like(gold, classes[counts.argmax()])
    return _with_other_metrics(task, round(100 * float(counts.max()) / len(gold), 2), gold, answers)


def _with_other_metrics(task: str, test: float, gold: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Returns ``test`` with the task's other metrics of predicted classes of shape (n,)."""
    found = {"test": test}
    if task == "MRPC":
        found["accuracy"] = test
    for key, metric in METRICS.items():
        if task in metric.beside and metric.compute is not None:
            found[key] = round(metric.compute(gold, predicted), 2)
    return found


def correlation(predictions: np.ndarray, gold: np.ndarray) -> Correlation:
    """Computes Pearson and Spearman of two arrays of shape (n,), n >= 2."""
    if any(np.ptp(scores) <= _ROUNDING * np.abs(scores).max() for scores in (predictions, gold)):
        return Correlation(math.nan, math.nan)
    from scipy import stats  # late, as above

    return Correlation(float(stats.pearsonr(predictions, gold)[0]), float(stats.spearmanr(predictions, gold)[0]))


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Computes the cosine of each pair of rows of two (n, D) arrays; 0 if one row is all zeros.

    The arithmetic is the toolkit's: pair by pair, in the vectors' own precision. Spearman depends on it. The
    cosine of a sentence with itself is 1 up to the last bit, and the toolkit ranks such pairs by that bit: 65 of
    459 in SMTeuroparl, which changes its correlation in the fourth digit.

    Returns:
        float64 of shape (n,).
    """
    return np.array([_cosine(u, v) for u, v in zip(first, second, strict=True)], dtype=np.float64)


def relatedness(gold: np.ndarray, predicted: np.ndarray, *, trained: bool) -> dict[str, Any]:
    """Computes ``test`` (Spearman), ``pearson``, ``spearman`` and ``mse`` of scores of shape (n,).

    Args:
        trained: true if scores are on the scale of gold; for plain cosines ``mse`` is None.
    """
    found = correlation(predicted, gold)
    mse = float(np.mean((predicted - gold) ** 2)) if trained else None
    return {"test": 100 * found.spearman, **_percent(found), "mse": mse}


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]], *, cosine: bool) -> dict[str, Any]:
    """Computes ``test``, a year of STS averaged in three ways that must not be mixed, and each subset's scores.

    ``mean`` is the mean of the subsets' correlations (undefined if one of them is), ``wmean`` is weighted by their
    sizes, ``all`` is the correlation over all pairs of all subsets.

    Args:
        subsets: predicted and gold scores of shape (n,), by name.
        cosine: if true, ``test`` is one Spearman over all pairs; otherwise the mean of the subsets'.
    """
    each = {name: correlation(*scored) for name, scored in subsets.items()}
    table, sizes = np.array([*each.values()]), [len(gold) for _, gold in subsets.values()]
    ways = {
        "mean": Correlation(*table.mean(axis=0).tolist()),
        "wmean": Correlation(*np.average(table, axis=0, weights=sizes).tolist()),
        "all": correlation(*(np.concatenate(column) for column in zip(*subsets.values(), strict=True))),
    }
    return {
        "test": 100 * ways["all" if cosine else "mean"].spearman,
        "pearson": {name: 100 * value.pearson for name, value in ways.items()},
        "spearman": {name: 100 * value.spearman for name, value in ways.items()},
        "subsets": {
            name: {"n": size, **_percent(one)} for (name, one), size in zip(each.items(), sizes, strict=True)
        },
    }


def _percent(found: Correlation) -> dict[str, float]:
    return {"pearson": 100 * found.pearson, "spearman": 100 * found.spearman}


def _cosine(u: np.ndarray, v: np.ndarray) -> float:
    norms = np.linalg.norm(u) * np.linalg.norm(v)
    return float(np.dot(u, v) / norms) if norms > 0 else 0.0
