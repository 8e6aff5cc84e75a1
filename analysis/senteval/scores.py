"""Test scores of a record, computed from the predictions of a model or an ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from analysis.senteval.classifiers.similarity import Correlation, correlation, year


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
    """Computes ``test`` and, for MRPC, ``accuracy`` and ``f1``; arguments as in ``accuracy``."""
    found = {"test": accuracy(gold, predicted, folds)}
    if task == "MRPC":
        f1 = round(100 * float(f1_score(gold, predicted.argmax(axis=1))), 2)
        found |= {"accuracy": found["test"], "f1": f1}
    return found


def relatedness(gold: np.ndarray, predicted: np.ndarray, *, trained: bool) -> dict[str, Any]:
    """Computes ``test`` (Spearman), ``pearson``, ``spearman`` and ``mse`` of scores of shape (n,).

    Args:
        trained: true if scores are on the scale of gold; for plain cosines ``mse`` is None.
    """
    found = correlation(predicted, gold)
    mse = float(np.mean((predicted - gold) ** 2)) if trained else None
    return {"test": 100 * found.spearman, **_percent(found), "mse": mse}


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]], *, cosine: bool) -> dict[str, Any]:
    """Computes ``test``, the three kinds of average correlations of a year of STS, and each subset's.

    Args:
        subsets: predicted and gold scores of shape (n,), by name.
        cosine: if true, ``test`` is one Spearman over all pairs; otherwise the mean of the subsets'.
    """
    found = year(subsets)
    ways = {"mean": found.mean, "wmean": found.wmean, "all": found.all}
    return {
        "test": 100 * (found.all if cosine else found.mean).spearman,
        "pearson": {name: 100 * value.pearson for name, value in ways.items()},
        "spearman": {name: 100 * value.spearman for name, value in ways.items()},
        "subsets": {
            name: {"n": len(one.predictions), **_percent(one.correlation)} for name, one in found.subsets.items()
        },
    }


def _percent(found: Correlation) -> dict[str, float]:
    return {"pearson": 100 * found.pearson, "spearman": 100 * found.spearman}
