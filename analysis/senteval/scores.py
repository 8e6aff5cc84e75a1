"""From predictions to a record's test scores: of one model or of an ensemble, by the same functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from analysis.senteval.classifiers.similarity import Correlation, correlation, year


def accuracy(gold: np.ndarray, predicted: np.ndarray, folds: np.ndarray | None = None) -> float:
    """Percentage of examples whose highest score is their class, to two digits; of folds the mean over them.

    Args:
        gold: classes, of shape (n,).
        predicted: probabilities or other scores, of shape (n, C).
        folds: each example's outer fold, of shape (n,); None: there are none.
    """
    right = predicted.argmax(axis=1) == gold
    if folds is None:
        return round(100 * float(np.mean(right)), 2)
    return mean([round(100 * float(np.mean(right[folds == fold])), 2) for fold in np.unique(folds)])


def mean(scores: Sequence[float]) -> float:
    """Mean to two digits; by np.float64's own rounding, as in the toolkit: Python's differs on a half."""
    return float(round(np.mean(scores), 2))


def classification(
    task: str, gold: np.ndarray, predicted: np.ndarray, folds: np.ndarray | None = None
) -> dict[str, Any]:
    """``test``, and of MRPC ``accuracy`` and ``f1``; arguments as ``accuracy`` has them."""
    found = {"test": accuracy(gold, predicted, folds)}
    if task == "MRPC":
        f1 = round(100 * float(f1_score(gold, predicted.argmax(axis=1))), 2)
        found |= {"accuracy": found["test"], "f1": f1}
    return found


def relatedness(gold: np.ndarray, predicted: np.ndarray, *, trained: bool) -> dict[str, Any]:
    """``test`` (Spearman), ``pearson``, ``spearman`` and ``mse`` of scores of shape (n,).

    Args:
        trained: whether scores are on gold's scale; of plain cosines there is no squared error.
    """
    found = correlation(predicted, gold)
    mse = float(np.mean((predicted - gold) ** 2)) if trained else None
    return {"test": 100 * found.spearman, **_percent(found), "mse": mse}


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]], *, cosine: bool) -> dict[str, Any]:
    """``test``, and correlations of a year of STS in its three ways and of each subset.

    Args:
        subsets: by name, predicted and gold scores of shape (n,).
        cosine: whether ``test`` is one Spearman over all pairs; else the mean of the subsets'.
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
