"""What recurrent kernels ask for: rows as a packed sequence, and numbers of a type that can hold them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def packing(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """How B rows of ``lengths`` (of shape (B,), on the host) in a block of ``width`` become a packed sequence.

    Returns:
        Places of the N real tokens in the flattened block (B * width,), in packed order (first tokens first,
        longer rows first; empty rows are in none), and how many rows are still running at each position.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    longest = int(lengths.max()) if len(lengths) else 0
    running = torch.arange(longest)[:, None] < lengths[order]  # (longest, B)
    position, rank = running.nonzero(as_tuple=True)
    return order[rank] * width + position, running.sum(dim=1)


def in_own_type(values: Tensor) -> AbstractContextManager[None]:
    """Takes recurrent kernels out of bf16's autocast on a GPU, where they would run in float16.

    (ATen's AutocastRNN.cpp casts to that type whatever autocast's is; without loss scaling, which bf16 does not
    have, small gradients are lost. Under float16's autocast there is one, and they stay in it.)
    """
    kind = values.device.type
    if kind == "cuda" and torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16:
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def without_tf32() -> AbstractContextManager[None]:
    """Has cuDNN multiply in full float32: its recurrent kernels keep 10 bits otherwise (torch's default)."""
    cudnn = torch.backends.cudnn
    return cudnn.flags(
        enabled=cudnn.enabled, benchmark=cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=False
    )
