"""Naive reference implementations, written from the papers' formulas alone."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor


def nt_xent(anchors: Tensor, positives: Tensor, temperature: float, queue: Tensor | None = None) -> Tensor:
    """Returns DeCLUTR's NT-Xent, summed term by term: the mean over all 2n vectors."""
    vectors = [*anchors, *positives]
    n = len(anchors)

    def similarity(u: Tensor, v: Tensor) -> Tensor:
        return (u @ v) / (u.norm() * v.norm()) / temperature

    losses = []
    for i, u in enumerate(vectors):
        scores = [similarity(u, v) for k, v in enumerate(vectors) if k != i]
        scores += [similarity(u, v) for v in (queue if queue is not None else [])]
        pair = similarity(u, vectors[(i + n) % (2 * n)])
        losses.append(torch.logsumexp(torch.stack(scores), 0) - pair)
    return torch.stack(losses).mean()


def placements(n: int, length: int, count: int, gap: int) -> list[tuple[int, ...]]:
    """Returns all increasing starts, at least ``gap`` apart, of ``count`` spans of ``length`` in ``n`` tokens."""
    starts = range(n - length + 1)
    return [
        chosen
        for chosen in itertools.combinations(starts, count)
        if all(b - a >= gap for a, b in itertools.pairwise(chosen))
    ]


def least_padded_area(lengths: list[int], groups: int) -> int:
    """Returns the smallest padded area over all ways to cut the sorted lengths into at most ``groups`` runs."""
    rows = sorted(lengths)
    best = math.inf
    for count in range(min(groups, len(rows))):
        for cuts in itertools.combinations(range(1, len(rows)), count):
            borders = [0, *cuts, len(rows)]
            best = min(best, sum((b - a) * rows[b - 1] for a, b in itertools.pairwise(borders)))
    return int(best)


def chi_square(counts: np.ndarray) -> float:
    """Returns the p-value of a chi-square test that ``counts`` come from a uniform distribution."""
    from scipy import stats

    return float(stats.chisquare(counts).pvalue)
