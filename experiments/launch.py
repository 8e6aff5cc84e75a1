"""One run in one or several processes of this machine, behind one command.

On a CPU, processes of one thread each share the cores by default: threads of one process wait for each other at
every operation, so that one core that is busy with something else stops them all (``benchmarks/busy.py``), while
processes wait for each other once a step. Several processes are started and watched by torch's own launcher.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exc
from typing import Any

import torch

from data.errors import UserError
from experiments.interrupts import INTERRUPTS, print_note, signal_handler, terminations
from experiments.run_folder import resume_hint

MOST = 8  # processes by default: each takes about a GiB with a small encoder
GROUP = "RUN_GROUP"  # variable with the file where processes meet


def run(config: dict[str, Any], path: Path) -> None:
    """Trains, evaluates and exports an encoder, in as many processes as ``config`` asks for.

    Args:
        config: checked configuration.
        path: the run's folder.

    Raises:
        UserError: for errors that the user can fix.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    from experiments import building, experiment, processes  # takes seconds

    components = building.build_components(config)
    settings = components.settings
    cpu = processes.on_cpu(settings)
    launched = int(os.environ.get("WORLD_SIZE", 0))  # set by torch's launchers
    cores = torch.get_num_threads()
    size = math.gcd(*(task.batch_size for task in components.objective.tasks.values()))
    fitting = fitting_processes(size, cores) if cpu and settings.threads is None else 1
    count = launched or settings.processes or fitting
    devices = max(MOST, os.cpu_count() or 1) if cpu else max(1, torch.cuda.device_count())  # one on mps
    if (count > devices and not launched) or size % count:
        raise UserError(f"must divide all batches and be at most {devices} here", key=f"processes={count}")
    config = config | {"processes": count}
    if launched:
        experiment.run(config, path, components)
        return
    if cpu:
        config["threads"] = settings.threads or max(1, cores // count)
    try:
        if count > 1:
            run_processes(config, path, count)
        else:
            experiment.run(config, path, components)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{str(error) or 'Interrupted.'} {resume_hint(path)}".strip()) from None
    finally:
        torch.set_num_threads(cores)  # a sweep's next job counts them again


def fitting_processes(size: int, cores: int) -> int:
    """Returns the number of processes that divides a batch of ``size`` and leaves the fewest cores idle."""
    counts = range(1, min(cores, MOST) + 1)
    return max(counts, key=lambda count: (size % count == 0, count * (cores // count), count))


def run_processes(config: dict[str, Any], path: Path, count: int) -> None:
    """Runs ``config`` in ``count`` processes; this one waits for them and passes signals on."""
    from accelerate.utils import patch_environment
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher import LaunchConfig, elastic_launch

    errors = multiprocessing.get_context("spawn").SimpleQueue()  # of the processes that raised
    with TemporaryDirectory() as folder, forwarded_signals() as received:
        launch = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id="run",
            rdzv_backend="c10d",
            rdzv_endpoint=f"{folder}/agents",
            rdzv_configs={"store_type": "file"},
            local_addr="localhost",
            max_restarts=0,
            signals_to_handle="SIGQUIT",
            logs_specs=DefaultLogsSpecs(folder),
        )
        # Nothing listens beyond this machine: processes meet in a file, and talk over the loopback interface.
        variables = {
            GROUP: f"{folder}/group",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        }
        if config["threads"] is not None:
            variables["OMP_NUM_THREADS"] = str(config["threads"])
        logging.disable()  # torch's lines about a process that ended
        try:
            with patch_environment(**variables):
                elastic_launch(launch, run_process)(config, path, errors)
        except ChildFailedError as error:
            causes = []  # the first is that of the others, which fail when a process of their group has ended
            while not errors.empty():
                causes.append(errors.get())
            if received:
                interrupted = (each for each in causes if isinstance(each, KeyboardInterrupt))
                raise next(interrupted, KeyboardInterrupt()) from None
            killed = [each.signal_name() for each in error.failures.values() if each.exitcode < 0]
            if causes and not killed:
                raise causes[0] from None
            text = f"one ended ({', '.join(killed) or 'its error is above'}), possibly out of memory"
            raise UserError(text, key="processes", hint=resume_hint(path)) from None
        finally:
            logging.disable(logging.NOTSET)


def run_process(config: dict[str, Any], path: Path, errors: Any) -> None:
    """Runs one of the processes; it ends with status 1 and an exception in the queue ``errors``, if there is one.

    It has to end: its open connections would keep the others waiting.
    """
    os.setpgrp()  # a terminal's Ctrl-C reaches the first process only, which passes it on
    # Torch sends SIGINT when the first process is killed. A shell may have started that one without it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parent = os.getppid()
    try:
        with terminations():
            run(config, path)
    except BaseException as error:
        error.add_note(format_exc(-50))  # a longer one would fill the pipe, which nobody reads yet
        errors.put(error)
        sys.exit(1)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        if os.getppid() != parent:  # it was killed, and torch would wait for it
            os._exit(1)


@contextmanager
def forwarded_signals() -> Iterator[list[int]]:
    """Passes signals on to the processes that this one started, as SIGTERM; yields those received."""
    received = list[int]()

    def forward(number: int, _: object) -> None:
        received.append(number)
        children = multiprocessing.active_children()
        if not children:
            raise KeyboardInterrupt
        if len(received) == 1:
            print_note()
        for child in children:
            child.terminate()

    with signal_handler(INTERRUPTS, forward):
        yield received
