"""Scores of predictions: accuracy, F1 and correlations, computed and rounded as in the toolkit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_ROUNDING = 1e-6  # relative rounding error of single precision: scores that differ by less count as equal


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
    correct = predicted.argmax(axis=1) == gold
    folds = np.zeros(len(gold)) if folds is None else folds
    return mean([round(100 * float(np.mean(correct[folds == fold])), 2) for fold in np.unique(folds)])


def mean(scores: Sequence[float]) -> float:
    """Computes the mean to two digits, rounded by NumPy as in the toolkit; Python rounds halves differently."""
    return float(round(np.mean(scores), 2))


def correlation(predictions: np.ndarray, gold: np.ndarray) -> Correlation:
    """Computes Pearson and Spearman of two arrays of shape (n,), n >= 2."""
    if any(np.ptp(scores) <= _ROUNDING * np.abs(scores).max() for scores in (predictions, gold)):
        return Correlation(math.nan, math.nan)
    from scipy import stats  # late: tables need only the names of metrics

    return Correlation(float(stats.pearsonr(predictions, gold)[0]), float(stats.spearmanr(predictions, gold)[0]))


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Computes the cosine of each pair of rows of two (n, D) arrays; 0 if one row is all zeros.

    The arithmetic is the toolkit's: pair by pair, in the vectors' own precision. Spearman depends on it. The
    cosine of a sentence with itself is 1 up to the last bit, and the toolkit ranks such pairs by that bit: 65 of
    459 in SMTeuroparl, which changes its correlation in the fourth digit.

    Returns:
        float64 of shape (n,).
    """

    def cosine(u: np.ndarray, v: np.ndarray) -> float:
        norms = np.linalg.norm(u) * np.linalg.norm(v)
        return float(np.dot(u, v) / norms) if norms > 0 else 0.0

    return np.array([*map(cosine, first, second)], dtype=np.float64)


def classification(
    task: str, gold: np.ndarray, predicted: np.ndarray, folds: np.ndarray | None = None
) -> dict[str, float]:
    """Computes ``test``, for MRPC also ``accuracy`` and ``f1``; arguments as in ``accuracy``."""
    test = accuracy(gold, predicted, folds)
    if task != "MRPC":
        return {"test": test}
    from sklearn.metrics import f1_score  # late, as above

    f1 = 100 * float(f1_score(gold, predicted.argmax(axis=1)))
    return {"test": test, "accuracy": test, "f1": round(f1, 2)}


def relatedness(gold: np.ndarray, predicted: np.ndarray, *, trained: bool) -> dict[str, Any]:
    """Computes ``test`` (Spearman), ``pearson``, ``spearman`` and ``mse`` of scores of shape (n,).

    Args:
        gold: gold scores.
        predicted: predicted scores.
        trained: true if they are on the scale of gold; for plain cosines ``mse`` is None.
    """
    percent = _percent(correlation(predicted, gold))
    mse = float(np.mean((predicted - gold) ** 2)) if trained else None
    return {"test": percent["spearman"], **percent, "mse": mse}


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
    pooled = correlation(*map(np.concatenate, zip(*subsets.values(), strict=True)))
    ways = {"mean": table.mean(axis=0), "wmean": np.average(table, axis=0, weights=sizes), "all": pooled}
    pearson, spearman = ({way: 100 * float(pair[column]) for way, pair in ways.items()} for column in (0, 1))
    return {
        "test": spearman["all" if cosine else "mean"],
        "pearson": pearson,
        "spearman": spearman,
        "subsets": {name: {"n": n, **_percent(pair)} for n, (name, pair) in zip(sizes, each.items(), strict=True)},
    }


def _percent(scores: Correlation) -> dict[str, float]:
    return {metric: 100 * value for metric, value in scores._asdict().items()}
