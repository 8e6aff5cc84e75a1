"""Loads and evaluates tasks one after another in this process, or side by side in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch

from analysis.senteval.features import FLOAT
from analysis.senteval.task_evaluation import Dataset, Job, Outcomes, load
from analysis.senteval.tasks import TASKS
from data.errors import UserError

MOST_PROCESSES = 8  # by default: each holds a context and a few tasks' vectors on the GPU
SECONDS = 0.25  # between two looks at the progress of other processes

Matrices = Mapping[str | None, np.ndarray]


def number_of_processes(wanted: int | None, tasks: int, device: str) -> int:
    """Returns how many processes evaluate ``tasks`` tasks; ``wanted`` None: 1 on a CPU, up to 8 on a GPU."""
    if wanted is None:
        from data.tokenising import cores  # late: a CPU does not need it

        wanted = 1 if torch.device(device).type == "cpu" else min(cores() // 2, MOST_PROCESSES)
    return max(1, min(wanted, tasks))


def evaluate_jobs(
    jobs: Sequence[Job],
    matrices: Matrices,
    workers: Workers | None,
    *,
    progress: Callable[[str, float], None],
    finish: Callable[[str, Outcomes], None],
) -> None:
    """Evaluates ``jobs`` in their order, one after another or by ``workers``.

    Linear classifiers on a CPU are the same to the last bit for any number of processes.

    Args:
        matrices: vectors by pooling, of shape (N, D); for ``workers`` memory-mapped.
        progress: called with a task and its share done, 0 to 1; with 0 when it begins.
        finish: called with a task and what its evaluation returned.

    Raises:
        UserError: for examples that cannot be used, or if a process is killed.
    """
    if workers is not None:
        workers.evaluate(jobs, matrices, progress, finish)
        return
    for job in jobs:
        finish(job.name, job.evaluate(matrices, partial(progress, job.name)))


class Workers:
    """Processes that load and evaluate tasks side by side, each with its share of this one's threads.

    Args:
        count: number of processes.
        most: largest number of jobs.
    """

    def __init__(self, count: int, most: int) -> None:
        context = multiprocessing.get_context("spawn")  # a GPU cannot be used after a fork
        self._shares = context.RawArray("d", [-1.0] * most)  # -1: not begun
        self._alive, self._held = context.Pipe(duplex=False)
        self._threads = max(1, torch.get_num_threads() // count)
        given = self._shares, self._alive, self._threads
        self._pool = ProcessPoolExecutor(count, context, initializer=_start, initargs=given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()  # ends processes that still work
        self._pool.shutdown(cancel_futures=True)
        self._alive.close()

    def load(self, folders: Mapping[str, Path]) -> dict[str, Dataset]:
        """Loads tasks from their groups' folders, by name, largest first.

        Raises:
            UserError: for files that cannot be used, or if a process is killed.
        """

        def size(name: str) -> int:
            return sum((folders[name] / file).stat().st_size for file in TASKS[name].files)

        with _killed_processes_reported(), _starting(self._threads):
            loading = {
                name: self._pool.submit(load, name, folders[name])
                for name in sorted(folders, key=size, reverse=True)
            }
            return {name: loading[name].result() for name in folders}

    def evaluate(
        self,
        jobs: Sequence[Job],
        matrices: Matrices,
        progress: Callable[[str, float], None],
        finish: Callable[[str, Outcomes], None],
    ) -> None:
        """Evaluates ``jobs``; see ``evaluate_jobs``."""
        files = {pooling: (str(matrix.filename), matrix.shape) for pooling, matrix in matrices.items()}  # type: ignore[attr-defined]
        with _killed_processes_reported():
            with _starting(self._threads):
                waiting = {
                    self._pool.submit(_evaluate, place, job, files): job.name for place, job in enumerate(jobs)
                }
            while waiting:
                done, _ = wait(waiting, timeout=SECONDS, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda one: one.exception() is not None):  # failures last
                    finish(waiting.pop(future), future.result())
                for job, share in zip(jobs, self._shares, strict=False):
                    if share >= 0:
                        progress(job.name, share)


@contextmanager
def _killed_processes_reported() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise UserError(
            "A process that evaluates tasks was killed, perhaps for want of memory. Results so far are kept; "
            "processes=1 needs the least memory."
        ) from None


@contextmanager
def _starting(threads: int) -> Iterator[None]:
    """Gives processes that are started ``threads`` threads, no Ctrl-C, and no program.

    Ctrl-C is for the first process, which ends the others. They would run a program without ``if __name__`` again.
    """
    program, environment = sys.modules["__main__"], dict(os.environ)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.modules["__main__"] = program
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_shares: Any


def _start(shares: Any, alive: Connection, threads: int) -> None:
    """Prepares a process of the pool."""
    global _shares
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    torch.set_num_threads(threads)
    _shares = shares


def _end_with(alive: Connection) -> None:
    """Ends this process when the first one closes its side of the pipe, or is killed."""
    with suppress(EOFError, OSError):
        alive.recv_bytes()
    os._exit(1)


def _evaluate(place: int, job: Job, files: Mapping[str | None, tuple[str, tuple[int, int]]]) -> Outcomes:
    def progress(share: float) -> None:
        _shares[place] = share

    matrices = {pooling: np.memmap(file, FLOAT, "r", shape=shape) for pooling, (file, shape) in files.items()}
    outcomes = job.evaluate(matrices, progress)
    progress(1.0)
    return outcomes
