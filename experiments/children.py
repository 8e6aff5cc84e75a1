"""Commands as child processes, several at a time: watched, interrupted with care, told of when they fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from data.errors import UnfitError, UserError

POLL_SECONDS = 0.5
TAIL_BYTES = 4000
# Set for processes that are begun here: a pair that cannot work then has a status of its own, not a person's 2.
BEGUN_HERE = "SENTENCE_OBJECTIVES_BEGUN"
# Python's and this suite's own: a log that ends with one of these says why.
TELLING = (1, UserError.status, UnfitError.status, 130)
_STEP = re.compile(r"training ([\d,]+) of ([\d,]+)")


@dataclass(frozen=True)
class Job:
    """Commands of Python that are run one after another.

    Attributes:
        name: what it is called when it is spoken of.
        commands: give the arguments of Python (a script and its own) when their turn comes, or None where nothing
            is to be done.
        log: file that gets what they say.
        weight: of its share in the time that all take.
        after: names of the jobs that must have ended before it begins, well or not.
    """

    name: str
    commands: Sequence[Callable[[], Sequence[str] | None]]
    log: Path
    weight: float = 1.0
    after: Sequence[str] = ()


@dataclass
class Working:
    """A job while it is at work: the place of its command, its process, and the share of its training done.

    ``since`` is where its log begins to be of this process: above stands what earlier ones said.
    """

    job: Job
    process: subprocess.Popen[bytes] | None = None
    place: int = -1
    since: int = 0
    share: float = 0.0
    begun: float = field(default_factory=time.monotonic)


class Failure(NamedTuple):
    """Why a job failed, in a line, and the status of its process, which is negative where a signal ended it."""

    line: str
    status: int


Watch = Callable[[Sequence[Working], float], None]  # those at work, and the share of all that is done


def run_jobs(jobs: Sequence[Job], *, at_once: int, threads: int, watch: Watch) -> dict[str, Failure]:
    """Runs ``jobs``, ``at_once`` at the same time; a job whose command fails ends, the others go on.

    An interrupt goes to the children once, so that runs in training end with a checkpoint; a second kills them.

    Args:
        jobs: in the order in which they begin, but for those that wait for others.
        at_once: children at a time.
        threads: of each child on a CPU.
        watch: is told now and then.

    Returns:
        What failed, by the job's name.

    Raises:
        KeyboardInterrupt: when all children have ended after an interrupt.
    """
    waiting = list(jobs)
    at_work: list[Working] = []
    failed: dict[str, Failure] = {}
    whole = sum(job.weight for job in jobs) or 1.0
    done = 0.0
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), BEGUN_HERE: "1"}
    with terminations():
        try:
            while waiting or at_work:
                while len(at_work) < at_once and (ready := _ready(waiting, at_work)) is not None:
                    waiting.remove(ready)
                    at_work.append(Working(ready))
                for one in list(at_work):
                    if not _advance(one, environment, failed):
                        at_work.remove(one)
                        done += one.job.weight
                watch(at_work, (done + sum(one.job.weight * one.share for one in at_work)) / whole)
                if at_work:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            _end([one.process for one in at_work if one.process is not None])
            raise
    return failed


def _ready(waiting: Sequence[Job], at_work: Sequence[Working]) -> Job | None:
    """The first job that nothing it is ``after`` keeps from beginning."""
    left = {job.name for job in waiting} | {one.job.name for one in at_work}
    return next((job for job in waiting if left.isdisjoint(job.after)), None)


def _advance(one: Working, environment: Mapping[str, str], failed: dict[str, Failure]) -> bool:
    """Looks after a job: begins its next command where the last one has ended; False when nothing is left."""
    if one.process is not None:
        one.share = max(one.share, _share(one.job.log, one.since))
        if (status := one.process.poll()) is None:
            return True
        one.process = None
        if status != 0:
            failed[one.job.name] = Failure(_why(status, last_line(one.job.log, one.since)), status)
            return False
    while one.place + 1 < len(one.job.commands):
        one.place += 1
        try:
            arguments = one.job.commands[one.place]()
        except UserError as error:
            failed[one.job.name] = Failure(str(error), error.status)
            return False
        if arguments is not None:
            one.since = one.job.log.stat().st_size if one.job.log.exists() else 0
            one.process = _begin(arguments, one.job.log, environment)
            return True
    return False


def _why(status: int, line: str) -> str:
    """Why a child ended with ``status``, whose log ends with ``line``: who is killed tells nothing of it."""
    if status in TELLING and line:
        return line
    memory = " (out of memory?)" if status == -signal.SIGKILL else ""
    ended = f"killed by signal {-status}{memory}" if status < 0 else f"ended with status {status}"
    return f"{ended}; its last line: {line}" if line else ended


def _begin(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a child in a process group of its own: an interrupt of the terminal is passed on, once."""
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
    """Asks the children to stop and waits for them; at a second interrupt kills them."""
    for number in (signal.SIGINT, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with suppress(KeyboardInterrupt):
            for process in processes:
                process.wait()
            return


@contextmanager
def terminations() -> Iterator[None]:
    """Turns a request to terminate into what Ctrl-C is, so that what was begun is taken back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def last_line(log: Path, since: int = 0) -> str:
    """What a log ends with, without colour; "" where it says nothing from byte ``since`` on."""
    lines = [line.strip() for line in _tail(log, since).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _share(log: Path, since: int) -> float:
    """The share of the steps that a run's log tells to be done."""
    steps = _STEP.findall(_tail(log, since))
    if not steps:
        return 0.0
    done, of = (int(text.replace(",", "")) for text in steps[-1])
    return done / max(1, of)


def _tail(log: Path, since: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(since, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
