"""From a sentence's states to its vector: mean, cls, max or last, over real tokens alone.

    mean  (1 / n) sum_t h_t      cls  h_1      max  max_t h_t      last  h_n      (n real tokens)

Reimers and Gurevych (2019), section 3, compare the first three; special tokens count as real ones.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Pooling = Literal["mean", "cls", "max", "last"]
POOLINGS: tuple[str, ...] = get_args(Pooling)


def pool(states: Tensor, mask: Tensor, how: str) -> Tensor:
    """One vector a sequence, of shape (B, H).

    Args:
        states: of shape (B, T, H).
        mask: of shape (B, T), bool, True at real tokens, which stand on the left.
        how: "mean" (summed in float32 at least, and returned so), "cls" (the first token), "max" (of equals the
            gradient is one's) or "last".

    Raises:
        ValueError: if ``how`` is none of these.
    """
    if how == "mean":
        total = (states * mask.unsqueeze(-1)).sum(dim=1, dtype=torch.promote_types(states.dtype, torch.float32))
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1)  # (B, H)
    if how == "cls":
        return states[:, 0]
    if how == "max":
        with torch.no_grad():  # the gradient goes to one place a component, which amax's own finds by comparing
            place = states.masked_fill(~mask.unsqueeze(-1), float("-inf")).argmax(dim=1, keepdim=True)
        return states.gather(1, place).squeeze(1)
    if how == "last":
        last = (mask.sum(dim=1) - 1).clamp(min=0)  # (B,)
        return states[torch.arange(len(states), device=states.device), last]
    raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}. Got {how} instead.")
