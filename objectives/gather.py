"""Rows and means of all processes on every process, with gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


def world_size() -> int:
    """Number of processes that train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def sum_over_processes(value: Tensor) -> Tensor:
    """Sum of a detached ``value`` over all processes."""
    value = value.detach().clone()
    if world_size() > 1:
        distributed.all_reduce(value)
    return value


def global_mean(total: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of terms that all processes have, from this one's.

    Args:
        total: the sum of this process' terms, a scalar.
        count: their number.

    Returns:
        A scalar with gradient, such that the mean of the processes' gradients is that of the global mean; the
        global mean, detached; and the global number of terms, 1 at least.
    """
    everywhere = sum_over_processes(total.new_full((), count)).clamp(min=1)
    return world_size() * total / everywhere, sum_over_processes(total) / everywhere, everywhere


def gather_rows(rows: Tensor, *, legacy_scale: bool = False) -> Tensor:
    """All processes' ``rows`` (each of shape (n, ...)) in the order of their ranks, of shape (world * n, ...).

    Every process computes the same loss from the result, so its gradient is the same everywhere: the backward
    pass takes this process' slice, times the number of processes, because gradients are *averaged* over
    processes afterwards. The published DeCLUTR program lacks that factor: ``legacy_scale``.
    """
    if world_size() == 1:
        return rows
    return _GatherRows.apply(rows, 1 if legacy_scale else world_size())


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, scale: int) -> Tensor:
        ctx.scale = scale
        ctx.first, ctx.count = distributed.get_rank() * len(rows), len(rows)
        parts = [torch.empty_like(rows) for _ in range(world_size())]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0][ctx.first : ctx.first + ctx.count] * ctx.scale, None
