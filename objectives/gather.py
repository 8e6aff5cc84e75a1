"""Gathers rows and means from all processes, with gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


def world_size() -> int:
    """Returns the number of processes of the run."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def sum_over_processes(value: Tensor) -> Tensor:
    """Returns the sum of ``value``, detached, over all processes."""
    value = value.detach().clone()
    if world_size() > 1:
        distributed.all_reduce(value)
    return value


def global_mean(total: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the mean of terms that are spread over all processes.

    Args:
        total: sum of the terms of this process, a scalar.
        count: number of these terms.

    Returns:
        A scalar whose gradient, averaged over the processes, is the gradient of the global mean; the global mean,
        detached; and the global number of terms, at least 1.
    """
    everywhere = sum_over_processes(total.new_full((), count)).clamp(min=1)
    return world_size() * total / everywhere, sum_over_processes(total) / everywhere, everywhere


def gather_rows(rows: Tensor, *, legacy_scale: bool = False) -> Tensor:
    """Concatenates the ``rows`` of all processes (each of shape (n, ...)) by rank, to shape (world * n, ...).

    Every process computes the same loss from the result, so the backward pass takes the gradient's slice of this
    process. It is multiplied by the number of processes, because gradients are *averaged* over processes
    afterwards. The published DeCLUTR program lacks that factor, which ``legacy_scale`` reproduces.
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
