"""Jobs in subprocesses: several trainings or evaluations at a time, with their progress, failures and interrupts.

Each is a subprocess, so that several run at a time and one that the system kills does not take the others with it.
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
    """A training or evaluation, as a Python command.

    Attributes:
        name: of the job, for messages; no other job has it.
        command: returns the arguments of Python (a script and its own) when the job's turn comes, or None if there
            is nothing to do.
        log: file for its output.
        progress: returns the share of it that is done, 0 to 1.
        weight: share of the job in the time of all jobs.
        after: names of the jobs that must have ended before it begins, successfully or not.
        needs: names of the jobs that must have ended before it begins; if one fails, this job is left out.
    """

    name: str
    command: Callable[[], Sequence[str] | None]
    log: Path
    progress: Callable[[], float]
    weight: float = 1.0
    after: Sequence[str] = ()
    needs: Sequence[str] = ()


@dataclass(eq=False)
class RunningJob:
    """A running job.

    Attributes:
        process: its subprocess.
        begin: size of its log before, in bytes.
        share: share of it that is done.
    """

    job: Job
    process: subprocess.Popen[bytes]
    begin: int
    share: float = 0.0


Watch = Callable[[Sequence[RunningJob], float], None]  # running jobs, and the share of the work that is done


def run_jobs(jobs: Sequence[Job], *, at_once: int, threads: int, watch: Watch) -> dict[str, str]:
    """Runs ``jobs``, ``at_once`` at the same time; one that fails leaves the others running.

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
    running: list[RunningJob] = []
    failed: dict[str, str] = {}
    whole = sum(job.weight for job in jobs) or 1.0
    done = 0.0
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with terminations():
        try:
            while waiting or running:
                while len(running) < at_once and (ready := _ready(waiting, running)) is not None:
                    waiting.remove(ready)
                    try:
                        if failed.keys().isdisjoint(ready.needs) and (begun := _begin(ready, environment)):
                            running.append(begun)
                            continue
                    except (UserError, OSError) as error:
                        failed[ready.name] = str(error)
                    done += ready.weight
                for one in [*running]:
                    if (status := one.process.poll()) is None:
                        one.share = max(one.share, one.job.progress())
                        continue
                    running.remove(one)
                    done += one.job.weight
                    if status != 0:
                        failed[one.job.name] = _why(status, last_line(one.job.log, one.begin))
                watch(running, (done + sum(one.job.weight * one.share for one in running)) / whole)
                if running:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            _end([one.process for one in running])
            raise
    return failed


def _ready(waiting: Sequence[Job], running: Collection[RunningJob]) -> Job | None:
    """Returns the first job that waits for no other."""
    left = {job.name for job in waiting} | {one.job.name for one in running}
    return next((job for job in waiting if left.isdisjoint([*job.after, *job.needs])), None)


def _why(status: int, line: str) -> str:
    """Returns why a subprocess ended with ``status``; a killed one leaves no reason in its last ``line``."""
    if status in EXPLAINED and line:
        return line
    memory = " (out of memory?)" if status == -signal.SIGKILL else ""
    ended = f"killed by signal {-status}{memory}" if status < 0 else f"ended with status {status}"
    return f"{ended}; its last line: {line}" if line else ended


def _begin(job: Job, environment: Mapping[str, str]) -> RunningJob | None:
    """Starts a subprocess in its own process group, which no interrupt of the terminal reaches by itself."""
    if (arguments := job.command()) is None:
        return None
    job.log.parent.mkdir(parents=True, exist_ok=True)
    if job.log.is_symlink() or (job.log.exists() and not job.log.is_file()):
        raise UserError(f"{job.log} is a link, or not a file: remove it.")
    with job.log.open("ab") as file:
        begin = file.tell()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            process_group=0,
        )
    return RunningJob(job, process, begin)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stops the subprocesses and waits for them; kills them, and what they started, at an interrupt.

    SIGTERM, as SIGINT does nothing where a shell started this command in the background.
    """
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_line(log: Path, since: int = 0) -> str:
    """Returns the last line of a log, "" if it has none from byte ``since`` on."""
    lines = [line.strip() for line in _tail(log, since).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def trained_share(folder: Path) -> float:
    """Returns the share of its steps that the run in ``folder`` has done, as its timings.jsonl has it."""
    if not (lines := _tail(folder / "timings.jsonl", 0).splitlines()):
        return 0.0
    with suppress(
        ValueError, KeyError, TypeError, ArithmeticError, RecursionError
    ):  # half-written, or of version 0.1
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
    with display.rows("all jobs") as show:
        yield lambda running, share: show(
            [Row("all jobs", share), *(Row(one.job.name, one.share, text="") for one in running)]
        )
