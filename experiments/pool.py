"""A pool of subprocesses: several commands at a time, with their progress, failures and interrupts.

Trainings and evaluations are subprocesses, so that they run side by side and one that the system kills takes no
other along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from data.errors import UserError
from experiments.interrupts import terminations
from experiments.progress import Display, Row

POLL_SECONDS = 0.5
TAIL_BYTES = 4000
# Exit statuses of Python and of this suite, with which the last line of the log is the reason.
EXPLAINED = (1, UserError.status, 130)


@dataclass(frozen=True)
class Job:
    """Python commands that are run one after another.

    Attributes:
        name: of the job, for messages.
        commands: return the arguments of Python (a script and its own) when their turn comes, or None if there is
            nothing to do.
        log: file for their output.
        weight: share of the job in the time of all jobs.
        after: names of the jobs that must have ended before it begins, successfully or not.
        folder: run folder that the first command trains into, where its progress is read.
    """

    name: str
    commands: Sequence[Callable[[], Sequence[str] | None]]
    log: Path
    weight: float = 1.0
    after: Sequence[str] = ()
    folder: Path | None = None


@dataclass(eq=False)
class Working:
    """A running job.

    Attributes:
        process: its present subprocess.
        place: number of its present command.
        share: share of its training that is done.
    """

    job: Job
    process: subprocess.Popen[bytes] | None = None
    place: int = 0
    share: float = 0.0


Watch = Callable[[Sequence[Working], float], None]  # running jobs, and the share of the work that is done


def run_jobs(jobs: Sequence[Job], *, at_once: int, threads: int, watch: Watch) -> dict[str, str]:
    """Runs ``jobs``, ``at_once`` at the same time; a job whose command fails ends, the others go on.

    An interrupt is passed on once, so that runs in training end with a checkpoint; a second one kills them.

    Args:
        jobs: in the order in which they begin, except those that wait for others.
        at_once: number of subprocesses at a time.
        threads: of each subprocess on a CPU.
        watch: called every ``POLL_SECONDS``.

    Returns:
        Why jobs failed, each in a line, by the job's name.

    Raises:
        KeyboardInterrupt: when all subprocesses have ended after an interrupt.
    """
    waiting = list(jobs)
    at_work: dict[Working, Iterator[None]] = {}
    failed: dict[str, str] = {}
    whole = sum(job.weight for job in jobs) or 1.0
    done = 0.0
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with terminations():
        try:
            while waiting or at_work:
                while len(at_work) < at_once and (ready := _ready(waiting, at_work)) is not None:
                    waiting.remove(ready)
                    working = Working(ready)
                    at_work[working] = _carry_out(working, environment)
                for one, commands in [*at_work.items()]:
                    try:
                        next(commands)
                        continue
                    except StopIteration:
                        pass
                    except UserError as error:
                        failed[one.job.name] = str(error)
                    del at_work[one]
                    done += one.job.weight
                watch([*at_work], (done + sum(one.job.weight * one.share for one in at_work)) / whole)
                if at_work:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            _end([one.process for one in at_work if one.process is not None])
            raise
    return failed


def _ready(waiting: Sequence[Job], at_work: Collection[Working]) -> Job | None:
    """Returns the first job that waits for no other."""
    left = {job.name for job in waiting} | {one.job.name for one in at_work}
    return next((job for job in waiting if left.isdisjoint(job.after)), None)


def _carry_out(one: Working, environment: Mapping[str, str]) -> Iterator[None]:
    """Runs the commands of a job one after another, and yields as long as one is running.

    Raises:
        UserError: if one fails, with the reason.
    """
    log = one.job.log
    for place, command in enumerate(one.job.commands):
        one.place, arguments = place, command()
        if arguments is None:
            continue
        begin = log.stat().st_size if log.exists() else 0
        one.process = _begin(arguments, log, environment)
        while (status := one.process.poll()) is None:
            yield
            one.share = max(one.share, trained_share(one.job.folder))
        one.process = None
        if status != 0:
            raise UserError(_why(status, last_line(log, begin)))


def _why(status: int, line: str) -> str:
    """Returns why a subprocess ended with ``status``; a killed one leaves no reason in its last ``line``."""
    if status in EXPLAINED and line:
        return line
    memory = " (out of memory?)" if status == -signal.SIGKILL else ""
    ended = f"killed by signal {-status}{memory}" if status < 0 else f"ended with status {status}"
    return f"{ended}; its last line: {line}" if line else ended


def _begin(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a subprocess in its own process group, which no interrupt of the terminal reaches by itself."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            process_group=0,
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupts the subprocesses and waits for them; kills them at a second interrupt."""
    for number in (signal.SIGINT, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with suppress(KeyboardInterrupt):
            for process in processes:
                process.wait()
            return


def last_line(log: Path, since: int = 0) -> str:
    """Returns the last line of a log, "" if it has none from byte ``since`` on."""
    lines = [line.strip() for line in _tail(log, since).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def trained_share(folder: Path | None) -> float:
    """Returns the share of its steps that the run in ``folder`` has done, as its timings.jsonl has it."""
    if folder is None or not (lines := _tail(folder / "timings.jsonl", 0).splitlines()):
        return 0.0
    with suppress(ValueError, KeyError, TypeError, ZeroDivisionError):  # half-written, or of version 0.1
        last = json.loads(lines[-1])
        return min(1.0, last["step"] / last["steps"])
    return 0.0


def _tail(log: Path, since: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(since, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


@contextmanager
def watched(display: Display) -> Iterator[Watch]:
    """Shows the time left for all jobs, and the progress of each one that is running."""
    with display.rows("all runs") as show:

        def watch(at_work: Sequence[Working], share: float) -> None:
            rows = [Row(one.job.name, one.share, text="SentEval" if one.place else "") for one in at_work]
            show([Row("all runs", share), *rows])

        yield watch
