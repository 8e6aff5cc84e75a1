"""One run in several processes of this machine, behind one command.

On a CPU, processes of one thread each share the cores by default: threads of one process wait for each other at
every operation, so that one core that is busy with something else stops them all (``benchmarks/busy.py``), while
processes wait for each other once a step.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed, multiprocessing

from data.errors import UserError
from experiments import compose, experiment, signatures
from experiments.settings import Settings

MOST = 8  # processes that are started unasked: each takes about a GiB with a small encoder
ENDING_SECONDS = 10.0  # for the others to end after the first one


def run(config: dict[str, Any]) -> None:
    """Runs a checked ``config`` in as many processes as it asks for; this one is the first of them.

    Raises:
        UserError: for what the user can mend.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    if launched := int(os.environ.get("WORLD_SIZE", 0)):  # by torchrun or Accelerate
        if settings.resume is None and settings.processes not in (None, launched):
            raise UserError(
                f"processes={settings.processes}: the launcher started {launched}. Leave processes= out."
            )
        experiment.run(config | {"processes": launched})
        return
    cores, on_cpu = torch.get_num_threads(), _on_cpu(settings)
    count = settings.processes or (_fitting(config, cores) if on_cpu and settings.threads is None else 1)
    config = config | {"processes": count}
    if count == 1:
        experiment.run(config)
        return
    if settings.device == "mps" or (not on_cpu and torch.cuda.device_count() < count):
        raise UserError(f"processes={count}: there are fewer GPUs. processes=1 or device=cpu works here.")
    if on_cpu:
        config["threads"] = settings.threads or max(1, cores // count)
    _run(config, count)


def _on_cpu(settings: Settings) -> bool:
    return settings.device == "cpu" or not (torch.cuda.is_available() or torch.backends.mps.is_available())


def _fitting(config: Mapping[str, Any], cores: int) -> int:
    """The number of processes that divides all batches and leaves the fewest cores idle; the largest such."""
    tasks = signatures.build(config["objective"], "objective").tasks.values()
    counts = [
        count for count in range(1, min(cores, MOST) + 1) if not any(task.batch_size % count for task in tasks)
    ]
    return max(counts, key=lambda count: (count * (cores // count), count))


def _run(config: dict[str, Any], count: int) -> None:
    # This process keeps the store where all of them meet, so that no port has to be guessed.
    store = distributed.TCPStore("127.0.0.1", 0, count, is_master=True, wait_for_workers=False)
    environment = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    if config["threads"] is not None:
        environment["OMP_NUM_THREADS"] = str(config["threads"])
    with _interrupts_ignored():
        others = multiprocessing.start_processes(
            _join_in, (config, environment), nprocs=count - 1, join=False, daemon=True, start_method="spawn"
        )
    assert others is not None  # as it is told not to wait
    try:
        with _set(environment | {"RANK": "0", "LOCAL_RANK": "0"}):
            experiment.run(config)
    except RuntimeError as error:
        _explain(others, count, error)
        raise
    finally:
        for process in others.processes:
            process.kill()
            process.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _join_in(place: int, config: dict[str, Any], environment: Mapping[str, str]) -> None:
    """The work of each process but the first."""
    rank = str(place + 1)
    os.environ.update(environment, RANK=rank, LOCAL_RANK=rank)
    with compose.one_line_errors():
        experiment.run(config)


def _explain(others: Any, count: int, error: RuntimeError) -> None:
    """Raises what ended another process, if that is why this one has an ``error``."""
    try:
        others.join(ENDING_SECONDS)
    except multiprocessing.ProcessExitedException as ended:
        if ended.exit_code == UserError.status:  # it has printed its line
            raise compose.Ended(UserError.status) from error
        name = signal.Signals(-ended.exit_code).name if ended.exit_code < 0 else f"status {ended.exit_code}"
        raise UserError(
            f"Process {ended.error_index + 2} of {count} ended ({name}), perhaps for want of memory: processes=1 "
            "needs less. A run with a checkpoint goes on with resume=<its folder>."
        ) from error


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Has processes that start meanwhile ignore Ctrl-C, which reaches them too, until they train.

    The first process ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _set(environment: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
