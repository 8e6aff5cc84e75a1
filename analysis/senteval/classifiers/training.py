"""Shared parts of training: seed, early stopping, Adam, rows by number (``senteval/tools``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from analysis.senteval.protocols import SEED

_SPARE = 0.4  # share of a GPU's free memory that one table may take
_CHUNK = 1 << 16  # rows copied there at a time


@contextmanager
def toolkit_stream(device: torch.device | str, seed: int = SEED) -> Iterator[None]:
    """Seeds torch's global stream in the context, by default with the toolkit's seed; restores it afterwards."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.random.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


class Patience:
    """Early stopping: counts the dev evaluations without improvement. The count is never reset.

    Args:
        patience: training stops at the (patience + 1)-th such evaluation.
    """

    def __init__(self, patience: int) -> None:
        self.best = -math.inf
        self._left = patience + 1

    def rises(self, score: float) -> bool:
        """Records ``score``; returns True if it is the best so far, as the first one is."""
        if score > self.best:
            self.best = score
            return True
        self._left -= 1
        return False

    @property
    def spent(self) -> bool:
        return self._left == 0


def adam(parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: int) -> None:
    """Makes one update of ``torch.optim.Adam`` in place, faster for few numbers; ``step`` counts from 1."""
    mean.lerp_(gradient, 0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    scale = square.sqrt().div_(math.sqrt(1 - 0.999**step)).add_(1e-8)
    parameter.addcdiv_(mean, scale, value=-1e-3 / (1 - 0.9**step))


class Table:
    """Rows of a matrix by number, as tensors on ``device``.

    The matrix is copied to a GPU if it fits easily. On the host it may be memory-mapped, and only the rows in use
    are read.

    Args:
        matrix: float32 of shape (n, D).
    """

    def __init__(self, matrix: np.ndarray, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.width = matrix.shape[1]
        self._host = matrix
        self._here: Tensor | None = None
        if self.device.type == "cuda" and matrix.nbytes < _SPARE * torch.cuda.mem_get_info(self.device)[0]:
            self._here = torch.empty(matrix.shape, dtype=torch.float32, device=self.device)
            for begin in range(0, len(matrix), _CHUNK):
                part = np.array(matrix[begin : begin + _CHUNK], dtype=np.float32)
                self._here[begin : begin + _CHUNK] = torch.from_numpy(part)

    def __getitem__(self, rows: np.ndarray) -> Tensor:
        if self._here is not None:
            return self._here[torch.from_numpy(rows).to(self.device)]
        return torch.from_numpy(self._host[rows]).to(self.device)
