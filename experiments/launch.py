"""One run in several processes of this machine, behind one command.

On a CPU, processes of one thread each share the cores by default: threads of one process wait for each other at
every operation, so that one core that is busy with something else stops them all (``benchmarks/busy.py``), while
processes wait for each other once a step.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

from data.environment import environment
from data.errors import UserError
from experiments.interrupts import signal_handlers, terminations
from experiments.settings import Settings

MOST = 8  # processes by default: each takes about a GiB with a small encoder
ENDING_SECONDS = 2.0  # until a process that closed its connections has an exit status
HOST, LOOPBACK = "127.0.0.1", "lo0" if sys.platform == "darwin" else "lo"
READY, ERROR = "ready", "error"  # keys of the store: number of started processes, message of one that failed


def run(config: dict[str, Any], path: Path) -> None:
    """Trains, evaluates and exports an encoder, in as many processes as ``config`` asks for.

    Args:
        config: checked configuration.
        path: the run's folder.

    Raises:
        UserError: for errors that the user can fix.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(settings.device, True):
        raise UserError("this machine has no such GPU", key=f"device={settings.device}")
    from experiments import building, experiment, processes  # takes seconds

    components = building.build_components(config)
    if "WORLD_SIZE" in os.environ:  # set by torchrun and accelerate launch
        experiment.run(config | {"processes": int(os.environ["WORLD_SIZE"])}, path, components)
        return
    cores, cpu = torch.get_num_threads(), processes.on_cpu(settings)
    sizes = {task.batch_size for task in components.objective.tasks.values()}
    count = settings.processes or (fitting_processes(sizes, cores) if cpu and settings.threads is None else 1)
    devices = max(MOST, os.cpu_count() or 1) if cpu else max(1, torch.cuda.device_count())  # one on mps
    if count > devices or any(size % count for size in sizes):
        raise UserError(f"must divide all batches and be at most {devices} here", key=f"processes={count}")
    config = config | {"processes": count}
    if cpu:
        config["threads"] = settings.threads or max(1, cores // count)
    try:
        if count == 1:
            experiment.run(config, path, components)
        else:
            run_processes(config, path, components, count)
    finally:
        torch.set_num_threads(cores)  # a sweep's next job counts them again


def fitting_processes(sizes: set[int], cores: int) -> int:
    """Returns the number of processes that divides all batch ``sizes`` and leaves the fewest cores idle."""
    counts = [count for count in range(1, min(cores, MOST) + 1) if not any(size % count for size in sizes)]
    return max(counts, key=lambda count: (count * (cores // count), count))


def run_processes(config: dict[str, Any], path: Path, components: Any, count: int) -> None:
    """Runs in this process, with its ``components``, and ``count - 1`` others."""
    from experiments import experiment

    # This process keeps the store where all of them meet; nothing listens beyond this machine.
    listening = socket.create_server((HOST, 0))
    port = listening.getsockname()[1]
    store = distributed.TCPStore(
        HOST, port, count, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    variables = {
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", LOOPBACK),
    }
    if config["threads"] is not None:
        variables["OMP_NUM_THREADS"] = str(config["threads"])
    with signal_handlers({signal.SIGINT: signal.SIG_IGN}):  # until they train; this process ends them
        others: Any = multiprocessing.start_processes(
            run_other, (config, path, variables), nprocs=count - 1, join=False, start_method="spawn"
        )
    try:
        while store.add(READY, 0) < count - 1:  # one that dies before they meet would be waited for
            others.join(0.1)
        with environment(variables | {"RANK": "0", "LOCAL_RANK": "0"}):
            experiment.run(config, path, components)
    except multiprocessing.ProcessExitedException as ended:
        raise exit_error(ended, store) from ended
    except RuntimeError as error:  # what a collective raises when another process ends
        try:
            others.join(ENDING_SECONDS)
        except multiprocessing.ProcessExitedException as ended:
            raise exit_error(ended, store, getattr(error, "__notes__", ())) from error
        raise
    finally:
        for process in others.processes:
            process.kill()
            process.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def run_other(place: int, config: dict[str, Any], path: Path, variables: Mapping[str, str]) -> None:
    """Runs one of the other processes."""
    from experiments import building, experiment

    rank = str(place + 1)
    os.environ.update(variables, RANK=rank, LOCAL_RANK=rank)
    store = distributed.TCPStore(HOST, int(variables["MASTER_PORT"]), is_master=False)
    store.add(READY, 1)
    try:
        with terminations():
            experiment.run(config, path, building.build_components(config))
    except UserError as error:  # mostly all processes have the same one
        store.set(ERROR, str(error))
        sys.exit(UserError.status)
    except KeyboardInterrupt:
        sys.exit(130)


def exit_error(
    ended: multiprocessing.ProcessExitedException, store: distributed.TCPStore, notes: Sequence[str] = ()
) -> BaseException:
    """Returns the exception that ends the run because another process ended; ``notes`` say how to go on."""
    if ended.exit_code == 130:
        return KeyboardInterrupt()
    if ended.exit_code == UserError.status:
        return UserError(store.get(ERROR).decode())
    return UserError(f"{ended}, possibly out of memory", key="processes", hint=" ".join(notes))
