"""The objectives' mathematics as pure functions.

NT-Xent (Chen et al. 2020; Giorgi et al. 2021, section 3.1), for n pairs (e_i, e_{i+n}) and queue q_1 .. q_M:

    l(i) = -log  exp(cos(e_i, e_pair(i)) / t)
                 / (sum_{k != i} exp(cos(e_i, e_k) / t) + sum_m exp(cos(e_i, q_m) / t))
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Reduction = Literal["mean", "sum"]


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` in float32, or in float64 if they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def nt_xent(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    queue: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Normalised-temperature cross-entropy of n pairs, each against all other 2n - 2 (+ M) vectors.

    Args:
        anchors: of shape (n, D).
        positives: of shape (n, D); row i belongs to anchor i.
        temperature: divides the cosine similarities.
        queue: further negatives of shape (M, D), or None.
        reduction: "mean" over the 2n vectors (the published program) or "sum" (as the paper prints it).

    Returns:
        Scalar, at least in float32 whatever the inputs' type.
    """
    vectors = at_least_float32(torch.cat([anchors, positives]))  # (2n, D)
    with torch.autocast(vectors.device.type, enabled=False):  # at small temperatures half precision is noise
        vectors = F.normalize(vectors, dim=1)
        others = vectors if queue is None else torch.cat([vectors, F.normalize(queue.to(vectors), dim=1)])
        scores = vectors @ others.T / temperature  # (2n, 2n + M)
        scores.fill_diagonal_(-torch.inf)  # a vector is not its own negative
        pair = torch.arange(len(vectors), device=vectors.device).roll(len(anchors))  # (2n,)
        return F.cross_entropy(scores, pair, reduction=reduction)
