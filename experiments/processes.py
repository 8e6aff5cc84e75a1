"""The processes of a run: each step they agree on flags and average their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

from data.tokenising import cores

BUCKET = 16 * 2**20  # numbers that are averaged in one call


class Processes:
    """All ``count`` processes of a run; torch.distributed is up where there are several."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Flags travel between the hosts, so that no device is waited for.
        self._hosts = distributed.new_group(backend="gloo") if count > 1 else None

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each of ``flags``, of the same number everywhere, whether it is set on any process."""
        if self._hosts is None:
            return list(flags)
        found = torch.tensor(flags, dtype=torch.uint8)
        distributed.all_reduce(found, distributed.ReduceOp.MAX, group=self._hosts)
        return found.bool().tolist()

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Gives every process the first one's ``tensors``."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Makes the gradients of ``parameters`` their mean over processes, in few large calls.

        ``parameters`` are the same everywhere: those that some process has a gradient for. Where one has none
        it counts as zero.
        """
        if self.count == 1:
            return
        gradients = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            distributed.all_reduce(flat)
            flat /= self.count
            for gradient, mean in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(mean.view_as(gradient))


@contextmanager
def all_threads(count: int) -> Iterator[None]:
    """Gives this process the threads of all ``count`` processes of the run, while the others wait for it."""
    own = torch.get_num_threads()
    torch.set_num_threads(min(count * own, cores()) if count > 1 else own)
    try:
        yield
    finally:
        torch.set_num_threads(own)


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """``gradients`` in runs of about ``BUCKET`` numbers of one type."""
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and (size + gradient.numel() > BUCKET or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.numel()
    if bucket:
        yield bucket
