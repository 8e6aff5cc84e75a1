"""Cosine against gold scores: STS12-16, and STS-B and SICK-R with nothing trained (``senteval/sts.py``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

_ROUNDING = 1e-6  # scores that differ by no more than this share come of single precision: they are all equal


class Correlation(NamedTuple):
    """Two correlations, -1 .. 1; NaN where undefined (all scores equal), as in the toolkit."""

    pearson: float
    spearman: float


class Judged(NamedTuple):
    """Scored pairs of one set.

    Attributes:
        correlation: of predictions and gold.
        predictions: cosines, float64 of shape (n,).
    """

    correlation: Correlation
    predictions: np.ndarray


class Similarity(NamedTuple):
    """One year of STS, in three ways that are never to be mixed.

    Attributes:
        subsets: each subset's own.
        mean: of the subsets' correlations; undefined where one of them is.
        wmean: the same, weighted by the subsets' sizes.
        all: of all pairs of all subsets at once.
    """

    subsets: dict[str, Judged]
    mean: Correlation
    wmean: Correlation
    all: Correlation


def correlation(predictions: np.ndarray, gold: np.ndarray) -> Correlation:
    """Pearson and Spearman of two arrays of shape (n,), n >= 2."""
    if any(np.ptp(scores) <= _ROUNDING * np.abs(scores).max() for scores in (predictions, gold)):
        return Correlation(math.nan, math.nan)
    return Correlation(float(stats.pearsonr(predictions, gold)[0]), float(stats.spearmanr(predictions, gold)[0]))


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of each row of ``first`` with its row of ``second``, both of shape (n, D); 0 where one is all zeros.

    In the toolkit's arithmetic: pair by pair, in the vectors' own precision. Spearman needs that: cosines of a
    sentence with itself are 1 but for the last bit, and that bit is how the toolkit ranks such pairs (65 of 459 in
    SMTeuroparl, whose correlation it moves in the fourth digit).

    Returns:
        float64 of shape (n,).
    """
    return np.array([_cosine(u, v) for u, v in zip(first, second, strict=True)], dtype=np.float64)


def cosine(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> Judged:
    """Judges pairs of vectors of shape (n, D) against gold scores of shape (n,)."""
    predictions = cosines(first, second)
    return Judged(correlation(predictions, gold), predictions)


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Similarity:
    """Judges one year of STS: by subset, first and second vectors of shape (n, D) and gold of shape (n,)."""
    return year({name: (cosines(first, second), gold) for name, (first, second, gold) in subsets.items()})


def year(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Similarity:
    """``similarity`` from scores that are there: by subset, predicted and gold ones of shape (n,)."""
    judged = {
        name: Judged(correlation(predictions, gold), predictions) for name, (predictions, gold) in subsets.items()
    }
    each = np.array([one.correlation for one in judged.values()])
    sizes = [len(one.predictions) for one in judged.values()]
    return Similarity(
        judged,
        mean=Correlation(*each.mean(axis=0).tolist()),
        wmean=Correlation(*np.average(each, axis=0, weights=sizes).tolist()),
        all=correlation(
            np.concatenate([one.predictions for one in judged.values()]),
            np.concatenate([gold for _, gold in subsets.values()]),
        ),
    )


def _cosine(u: np.ndarray, v: np.ndarray) -> float:
    norms = np.linalg.norm(u) * np.linalg.norm(v)
    return float(np.dot(u, v) / norms) if norms > 0 else 0.0
