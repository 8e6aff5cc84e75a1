"""Memory bank: a first-in-first-out queue of embeddings as further negatives (XBM; Wang et al. 2020).

Giorgi et al., first version, supplement 6.2. A batch joins the queue after its loss. pytorch-metric-learning's
CrossBatchMemory adds the batch before its loss, and so compares it with itself: its queue of M + 2AN embeddings
corresponds to M here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class MemoryBank(nn.Module):
    """Queue of the last ``size`` embeddings, detached. Its buffers are part of checkpoints.

    Args:
        size: M, number of embeddings held.
        dimension: D, width of an embedding.
    """

    rows: Tensor
    seen: Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("rows", torch.zeros(size, dimension))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))  # embeddings ever added
        self._count = 0  # the same number on the host, so that no step waits for the device
        self.register_load_state_dict_post_hook(_recount)

    def negatives(self) -> Tensor:
        """Returns the embeddings held, of shape (min(M, number ever added), D), in no particular order."""
        return self.rows[: min(self.size, self._count)]

    @torch.no_grad()
    def put(self, vectors: Tensor) -> None:
        """Adds ``vectors`` of shape (n, D) in their order and removes the oldest; of n > M the last M stay."""
        count = len(vectors)
        slots = torch.arange(self._count, self._count + count, device=self.rows.device) % self.size
        self.rows[slots[-self.size :]] = vectors[-self.size :].detach().to(self.rows)
        self.seen += count
        self._count += count


def _recount(bank: Any, _: object) -> None:
    """Restores the host's count of embeddings after a checkpoint was loaded."""
    bank._count = int(bank.seen)
