"""Two processes of one group, in which tests run functions that communicate."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from contextlib import ExitStack
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any


class TwoProcesses(ExitStack):
    """Two processes that stay in one group of gloo's until the context ends; they start with the first function.

    Args:
        rendezvous: path of a file by which they find each other; it must not exist.
    """

    def __init__(self, rendezvous: Path) -> None:
        super().__init__()
        self.pools = [
            self.enter_context(ProcessPoolExecutor(1, get_context("spawn"), _join, (rank, rendezvous)))
            for rank in range(2)
        ]

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Returns the results of ``function(rank, 2, *arguments)`` in both processes; it must be picklable."""
        futures = [pool.submit(function, rank, 2, *arguments) for rank, pool in enumerate(self.pools)]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
        return [future.result() for future in futures]


def _join(rank: int, rendezvous: Path) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    limit = timedelta(seconds=120)  # for a process that waits for one that failed
    distributed.init_process_group("gloo", f"file://{rendezvous}", limit, world_size=2, rank=rank)
