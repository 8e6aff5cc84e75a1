"""Gathers rows and means from all processes, with gradient."""

from __future__ import annotations

import torch
from torch import Tensor, distributed


def world_size(values: Tensor) -> int:
    """Returns the number of processes that share a batch: 1 on the meta device, where operations are counted."""
    together = distributed.is_initialized() and values.device.type != "meta"
    return distributed.get_world_size() if together else 1


def sum_over_processes(value: Tensor) -> Tensor:
    """Returns the sum of ``value``, detached, over all processes."""
    value = value.detach().clone()
    if world_size(value) > 1:
        distributed.all_reduce(value)
    return value


def global_mean(total: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the mean of terms that are spread over all processes.

    Args:
        total: sum of the terms of this process, a scalar.
        count: number of these terms.

    Returns:
        A scalar whose gradient, averaged over the processes, is the gradient of the global mean; the global mean,
        detached (0 if there is no term); and the global number of terms.
    """
    everywhere = sum_over_processes(total.new_full((), count))
    divisor = everywhere.clamp(min=1)
    return world_size(total) * total / divisor, sum_over_processes(total) / divisor, everywhere


def gather_rows(rows: Tensor, *, legacy_scale: bool = False) -> Tensor:
    """Concatenates the ``rows`` of all processes (each of shape (n, ...)) by rank, to shape (world * n, ...).

    Without gradient, n may differ between processes, as it does in a held-out part smaller than a batch.

    Every process computes the same loss from the result, so the backward pass takes the gradient's slice of this
    process. It is multiplied by the number of processes, because gradients are *averaged* over processes
    afterwards. The published DeCLUTR program lacks that factor, which ``legacy_scale`` reproduces.
    """
    world = world_size(rows)
    if world == 1:
        return rows
    if not torch.is_grad_enabled():
        shares: list[Tensor] = [rows] * world
        distributed.all_gather_object(shares, rows.cpu())
        return torch.cat(shares).to(rows.device)
    own = rows.clone(memory_format=torch.contiguous_format)
    parts = [torch.empty_like(own) for _ in range(world)]
    distributed.all_gather(parts, own.detach())
    parts[distributed.get_rank()] = own
    if own.requires_grad and not legacy_scale:
        own.register_hook(lambda gradient: gradient * world)
    return torch.cat(parts)
