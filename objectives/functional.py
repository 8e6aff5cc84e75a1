"""Losses of the objectives as pure functions.

NT-Xent (Chen et al. 2020; Giorgi et al. 2021, section 3.1), for n pairs (e_i, e_{i+n}) and queue q_1 .. q_M:

    l(i) = -log  exp(cos(e_i, e_pair(i)) / t)
                 / (sum_{k != i} exp(cos(e_i, e_k) / t) + sum_m exp(cos(e_i, q_m) / t))

Choice within the batch (Brahma 2018, section 3; the loss is Logeswaran and Lee's 2018), for B pairs (a_i, b_i):

    l(i) = -log  exp(a_i . b_i) / sum_{j in C_i} exp(a_i . b_j)
    C_i: i, i + 1, .. i + k - 1 mod B
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from encoders.kernels import without_autocast

Reduction = Literal["mean", "sum"]


def at_least_float32(values: Tensor) -> Tensor:
    """Returns ``values`` in float32, or in float64 if they are in float64."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def nt_xent(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    queue: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Computes NT-Xent of n pairs: each vector against its partner and all 2n - 2 (+ M) others.

    Args:
        anchors: of shape (n, D).
        positives: of shape (n, D); row i is the positive of anchor i.
        temperature: divides the cosine similarities.
        queue: further negatives of shape (M, D), or None.
        reduction: "mean" over the 2n vectors (the published program) or "sum" (as the paper prints it).

    Returns:
        Scalar, in float32 or float64 whatever the type of the inputs.
    """
    vectors = at_least_float32(torch.cat([anchors, positives]))  # (2n, D)
    with without_autocast(vectors.device):  # half precision is too coarse at small temperatures
        vectors = F.normalize(vectors, dim=1)
        others = vectors if queue is None else torch.cat([vectors, F.normalize(queue.to(vectors), dim=1)])
        scores = vectors @ others.T / temperature  # (2n, 2n + M)
        scores.fill_diagonal_(-torch.inf)  # a vector is not its own negative
        pair = torch.arange(len(vectors), device=vectors.device).roll(len(anchors))  # (2n,)
        return F.cross_entropy(scores, pair, reduction=reduction)


def in_batch_scores(first: Tensor, second: Tensor, k: int) -> Tensor:
    """Computes dot products of each first vector with the second vectors of its own and the next k - 1 rows.

    Rows wrap around at the end. As the order of a batch is random, the k - 1 negatives are random ones, and each
    second vector is a negative equally often.

    Args:
        first, second: of shape (B, D); row i of both forms a pair.
        k: candidates per row, from 1 to B.

    Returns:
        Scores of shape (B, k), those of the pairs in column 0, in float32 or float64.
    """
    with without_autocast(first.device):
        scores = at_least_float32(first) @ at_least_float32(second).T  # (B, B)
    rows = torch.arange(len(first), device=first.device)
    return scores.gather(1, (rows[:, None] + rows[:k]) % len(first))


def choose_first(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of choosing column 0 of ``scores`` (of shape (B, k), k > 1), and its accuracy.

    Returns:
        The mean of -log softmax(scores)[:, 0], a scalar, and the share of rows in which column 0 is larger than
        all others, a detached scalar. Ties count as misses, so collapsed vectors score 0.
    """
    with without_autocast(scores.device):
        loss = (scores.logsumexp(dim=1) - scores[:, 0]).mean()
    return loss, (scores[:, 0] > scores[:, 1:].amax(dim=1)).to(scores.dtype).mean().detach()
