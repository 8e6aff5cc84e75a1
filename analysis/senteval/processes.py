"""Evaluates tasks one after another in this process, or side by side in several processes."""

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
from types import ModuleType
from typing import Any

import numpy as np
import torch

from analysis.senteval.features import FLOAT
from analysis.senteval.task_evaluation import Job, Outcomes
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
    processes: int,
    *,
    progress: Callable[[str, float], None],
    finish: Callable[[str, Outcomes], None],
) -> None:
    """Evaluates ``jobs`` in their order, so many at a time as there are ``processes``.

    Linear classifiers on a CPU are the same to the last bit for any number of processes. Each process has its
    share of this one's threads.

    Args:
        matrices: vectors by pooling, of shape (N, D); for several processes memory-mapped.
        progress: called with a task and its share done, 0 to 1; with 0 when it begins.
        finish: called with a task and what its evaluation returned.

    Raises:
        UserError: for examples that cannot be used, or if a process is killed. The other processes are ended.
    """
    if processes > 1:
        _side_by_side(jobs, matrices, processes, progress, finish)
        return
    for job in jobs:
        finish(job.name, job.evaluate(matrices, partial(progress, job.name)))


def _side_by_side(
    jobs: Sequence[Job],
    matrices: Matrices,
    processes: int,
    progress: Callable[[str, float], None],
    finish: Callable[[str, Outcomes], None],
) -> None:
    context = multiprocessing.get_context("spawn")  # a GPU cannot be used after a fork
    shares = context.RawArray("d", [-1.0] * len(jobs))  # -1: not begun
    alive, held = context.Pipe(duplex=False)
    files = {pooling: (str(matrix.filename), matrix.shape) for pooling, matrix in matrices.items()}  # type: ignore[attr-defined]
    threads = max(1, torch.get_num_threads() // processes)
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(files, shares, alive, threads))
    try:
        with _starting(threads):
            waiting = {pool.submit(_work, place, job): job.name for place, job in enumerate(jobs)}
        while waiting:
            done, _ = wait(waiting, timeout=SECONDS, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda one: one.exception() is not None):  # failures last
                finish(waiting.pop(future), future.result())
            for job, share in zip(jobs, shares, strict=True):
                if share >= 0:
                    progress(job.name, share)
    except BrokenProcessPool:
        raise UserError(
            "a process that evaluates tasks was killed, perhaps for want of memory",
            key="processes",
            hint="Results so far are kept; processes=1 needs the least memory.",
        ) from None
    finally:
        held.close()  # ends processes that still work
        pool.shutdown(cancel_futures=True)
        alive.close()


@contextmanager
def _starting(threads: int) -> Iterator[None]:
    """Starts processes with ``threads`` threads, SIGINT blocked and an empty ``__main__``.

    The first process handles Ctrl-C. A script without ``if __name__`` is not run again.
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


_matrices: Matrices
_shares: Any


def _start(
    files: Mapping[str | None, tuple[str, tuple[int, int]]], shares: Any, alive: Connection, threads: int
) -> None:
    """Prepares a process of the pool."""
    global _matrices, _shares
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    torch.set_num_threads(threads)
    _matrices = {pooling: np.memmap(file, FLOAT, "r", shape=shape) for pooling, (file, shape) in files.items()}
    _shares = shares


def _end_with(alive: Connection) -> None:
    """Ends this process when the first one closes its side of the pipe, or is killed."""
    with suppress(EOFError, OSError):
        alive.recv_bytes()
    os._exit(1)


def _work(place: int, job: Job) -> Outcomes:
    def progress(share: float) -> None:
        _shares[place] = share

    outcomes = job.evaluate(_matrices, progress)
    progress(1.0)
    return outcomes
