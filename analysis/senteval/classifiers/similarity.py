"""Correlation of cosines with gold scores: STS12-16; STS-B and SICK-R without training (``senteval/sts.py``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

_ROUNDING = 1e-6  # relative rounding error of single precision: scores that differ by less count as equal


class Correlation(NamedTuple):
    """Pearson and Spearman correlations, -1 .. 1; NaN if undefined (all scores equal), as in the toolkit."""

    pearson: float
    spearman: float


class PairScores(NamedTuple):
    """Scores of the pairs of one set.

    Attributes:
        correlation: correlation of predictions and gold scores.
        predictions: cosines, float64 of shape (n,).
    """

    correlation: Correlation
    predictions: np.ndarray


class Similarity(NamedTuple):
    """Scores of one year of STS, averaged in three ways that must not be mixed.

    Attributes:
        subsets: scores of each subset.
        mean: mean of the subsets' correlations; undefined if one of them is.
        wmean: mean weighted by the subsets' sizes.
        all: correlation over all pairs of all subsets.
    """

    subsets: dict[str, PairScores]
    mean: Correlation
    wmean: Correlation
    all: Correlation


def correlation(predictions: np.ndarray, gold: np.ndarray) -> Correlation:
    """Computes Pearson and Spearman of two arrays of shape (n,), n >= 2."""
    if any(np.ptp(scores) <= _ROUNDING * np.abs(scores).max() for scores in (predictions, gold)):
        return Correlation(math.nan, math.nan)
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


def cosine(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> PairScores:
    """Evaluates pairs of vectors of shape (n, D) against gold scores of shape (n,)."""
    predictions = cosines(first, second)
    return PairScores(correlation(predictions, gold), predictions)


def similarity(subsets: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Similarity:
    """Evaluates one year of STS; each subset has first and second vectors (n, D) and gold scores (n,)."""
    return year({name: (cosines(first, second), gold) for name, (first, second, gold) in subsets.items()})


def year(subsets: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Similarity:
    """Evaluates one year of STS from each subset's predicted and gold scores of shape (n,)."""
    scored = {
        name: PairScores(correlation(predictions, gold), predictions)
        for name, (predictions, gold) in subsets.items()
    }
    each = np.array([one.correlation for one in scored.values()])
    sizes = [len(one.predictions) for one in scored.values()]
    return Similarity(
        scored,
        mean=Correlation(*each.mean(axis=0).tolist()),
        wmean=Correlation(*np.average(each, axis=0, weights=sizes).tolist()),
        all=correlation(
            np.concatenate([one.predictions for one in scored.values()]),
            np.concatenate([gold for _, gold in subsets.values()]),
        ),
    )


def _cosine(u: np.ndarray, v: np.ndarray) -> float:
    norms = np.linalg.norm(u) * np.linalg.norm(v)
    return float(np.dot(u, v) / norms) if norms > 0 else 0.0
