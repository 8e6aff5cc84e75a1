"""A first-in-first-out queue of embeddings as further negatives (XBM; Wang et al. 2020).

Giorgi et al., first version, supplement 6.2. Unlike pytorch-metric-learning's CrossBatchMemory, which
enqueues a batch before its loss and so meets the batch twice, the batch joins after its loss: that queue of
M + 2AN corresponds to M here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MemoryBank(nn.Module):
    """The last ``size`` embeddings, detached; content and pointer are buffers, hence part of a checkpoint.

    Args:
        size: M, vectors held.
        dimension: D of a vector.
    """

    rows: Tensor
    seen: Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, dimension))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # vectors ever put in
        self._count = 0  # the same on the host, so that no step waits for the device
        self.register_load_state_dict_post_hook(_recount)

    def negatives(self) -> Tensor:
        """What is there, of shape (min(M, vectors ever put in), D), in no particular order."""
        return self.rows[: min(self.size, self._count)]

    @torch.no_grad()
    def put(self, vectors: Tensor) -> None:
        """Adds ``vectors`` of shape (n, D) in their order; the oldest leave. Of n > M the last M stay."""
        count = len(vectors)
        slots = torch.arange(self._count, self._count + count, device=self.rows.device) % self.size
        self.rows[slots[-self.size :]] = vectors[-self.size :].detach().to(self.rows)
        self.seen += count
        self._count += count


def _recount(bank: nn.Module, _: object) -> None:
    """Reads how many vectors a bank has seen from its buffer, which a checkpoint has filled."""
    assert isinstance(bank, MemoryBank)
    bank._count = int(bank.seen)
