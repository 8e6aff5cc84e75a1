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
from accelerate.utils import get_int_from_env
from torch import distributed, multiprocessing

from data.environment import environment
from data.errors import UserError
from experiments import building, compose, experiment
from experiments.command_line import Ended, one_line_errors
from experiments.interrupts import handled
from experiments.processes import on_cpu
from experiments.settings import Settings

MOST = 8  # processes by default: each takes about a GiB with a small encoder
ENDING_SECONDS = 2.0  # until a process that closed its connections has an exit status
# The variables that Accelerate reads.
LAUNCHERS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
HOST, LOOPBACK = "127.0.0.1", "lo0" if sys.platform == "darwin" else "lo"
READY = "ready"  # how many of the others have started


def run(config: dict[str, Any]) -> Path:
    """Runs a checked ``config`` in as many processes as it asks for; returns the run's folder.

    Raises:
        UserError: for errors that the user can fix.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    if launched := _launched():
        if settings.resume is None and settings.processes not in (None, launched):
            raise UserError(
                f"processes={settings.processes}: the launcher started {launched}. Leave processes= out."
            )
        return experiment.run(config | {"processes": launched})
    cores, cpu = torch.get_num_threads(), on_cpu(settings)
    sizes = {task.batch_size for task in compose.build(config["objective"], "objective").tasks.values()}
    count = settings.processes or (_fitting(sizes, cores) if cpu and settings.threads is None else 1)
    building.require_division(sizes, count)
    if not cpu and count > max(1, torch.cuda.device_count()):  # one on mps
        raise UserError(f"processes={count}: there are fewer GPUs. processes=1 or device=cpu works here.")
    if cpu and count > (most := max(MOST, os.cpu_count() or 1)):
        raise UserError(f"processes must be at most {most} on this machine. Got {count} instead.")
    config = config | {"processes": count}
    if cpu:
        config["threads"] = settings.threads or max(1, cores // count)
    try:
        return experiment.run(config) if count == 1 else _run(config, count)
    finally:
        torch.set_num_threads(cores)  # a sweep's next job counts them again


def _launched() -> int:
    """Returns the number of processes that torchrun, Accelerate or MPI started, 0 if none of them did."""
    try:
        return get_int_from_env(LAUNCHERS, 0)
    except ValueError:
        raise UserError(f"{', '.join(LAUNCHERS)}: where one is set it must be a whole number.") from None


def _fitting(sizes: set[int], cores: int) -> int:
    """Returns the number of processes that divides all batch ``sizes`` and leaves the fewest cores idle."""
    counts = [count for count in range(1, min(cores, MOST) + 1) if not any(size % count for size in sizes)]
    return max(counts, key=lambda count: (count * (cores // count), count))


def _run(config: dict[str, Any], count: int) -> Path:
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
    with handled({signal.SIGINT: signal.SIG_IGN}):  # until they train; this process ends them
        others: Any = multiprocessing.start_processes(
            _join_in, (config, variables), nprocs=count - 1, join=False, start_method="spawn"
        )
    try:
        while store.add(READY, 0) < count - 1:  # one that dies before they meet would be waited for
            others.join(0.1)
        with environment(variables | {"RANK": "0", "LOCAL_RANK": "0"}):
            return experiment.run(config)
    except multiprocessing.ProcessExitedException as ended:
        raise _end(ended, count) from ended
    except RuntimeError as error:  # what a collective raises when another process ends
        try:
            others.join(ENDING_SECONDS)
        except multiprocessing.ProcessExitedException as ended:
            raise _end(ended, count, getattr(error, "__notes__", ())) from error
        raise
    finally:
        for process in others.processes:
            process.kill()
            process.join()
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _join_in(place: int, config: dict[str, Any], variables: Mapping[str, str]) -> None:
    """Runs one of the other processes."""
    rank = str(place + 1)
    os.environ.update(variables, RANK=rank, LOCAL_RANK=rank)
    with one_line_errors():
        distributed.TCPStore(HOST, int(variables["MASTER_PORT"]), is_master=False).add(READY, 1)
        experiment.run(config)


def _end(ended: multiprocessing.ProcessExitedException, count: int, notes: Sequence[str] = ()) -> BaseException:
    """Returns the exception that ends the run because another process ``ended``; ``notes`` say how to go on."""
    status = ended.exit_code
    if status == UserError.status:  # it has printed its line
        return Ended(status)
    if status == 130:
        return KeyboardInterrupt()
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    what = f"Process {ended.error_index + 2} of {count} ended ({name}), possibly out of memory"
    return UserError(" ".join(filter(None, (f"{what}: processes=1 needs less.", *notes))))
