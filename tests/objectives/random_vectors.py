"""Random sentence vectors for tests of losses."""

from __future__ import annotations

import torch
from torch import Tensor


def vector_pairs(count: int, *, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns two blocks of ``count`` random vectors, in float64 and with gradient."""
    rng = torch.Generator().manual_seed(seed)
    draw = torch.randn(2, count, width, generator=rng, dtype=torch.float64)
    return draw[0].requires_grad_(), draw[1].requires_grad_()
