"""Runs beside each other: their names, how far each is, the commands that bring it on, and the progress of all."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from analysis import runs
from analysis.command import Clock
from analysis.comparison.reading import environment
from analysis.senteval.evaluation import digest_files
from analysis.senteval.results import FILE, read_results
from analysis.senteval.tasks import available, roots
from data.errors import UserError
from data.files import read_yaml, refuse_links_out
from experiments.budget import about
from experiments.children import Failure, Job, Watch, Working, run_jobs
from experiments.compose import RESUME_KEYS
from experiments.judging import PLAIN_SECONDS
from experiments.overrides import key_of, override
from experiments.progress import Display
from experiments.run_folder import LEARNS, ROOT

TRAIN, EVALUATE = (str(ROOT / "experiments" / script) for script in ("run.py", "evaluate.py"))

_digest = cache(digest_files)  # all runs of a command are judged on the same files, some of them large
State = Literal["finished", "begun", "missing", "broken"]


def name_of(config: Mapping[str, Any]) -> str:
    """Name of a run's folder: what it trains, and the digest of what its configuration computes."""
    digest = hashlib.sha256(json.dumps(runs.comparable(config), sort_keys=True).encode()).hexdigest()[:10]
    chosen = (config["names"][key] for key in ("objective", "encoder", "corpus"))
    return "-".join(map(str, (*chosen, config["seed"], digest)))


def joined_name(members: Sequence[str]) -> str:
    """Of the folder that has the encoders of the runs ``members``, in this order."""
    digest = hashlib.sha256(json.dumps(list(members)).encode()).hexdigest()[:10]
    return f"joined-{members[0].rpartition('-')[0]}-{digest}"


def state(folder: Path) -> State:
    """How far the run in ``folder`` is."""
    if not (folder / "config.yaml").exists():
        return "missing"
    found = runs.read(folder)["state"]
    return "begun" if found == "unfinished" else found


def how_far(states: Sequence[State], folder: str | Path, at_once: int) -> str:
    """How many runs there are in ``folder``, and how far they are."""
    counts = ", ".join(f"{states.count(kind)} {kind}" for kind in dict.fromkeys(states))
    return f"{len(states)} in {folder}: {counts}; {at_once} at a time"


def results_folder(folder: Path, protocol: str, pooling: str = "") -> Path:
    """Where SentEval's results of the run in ``folder`` lie, by another ``pooling`` than its encoder's own."""
    own = protocol == "default" and not pooling
    return folder if own else folder / "-".join(filter(None, ("senteval", protocol, pooling)))


def complete(out: Path, data: Path, tasks: Sequence[str] | None, probing: str | None = None) -> bool:
    """Whether ``out`` has results of all ``tasks`` (None: all) whose files are there now, on these very files."""
    if not (out / FILE).exists():
        return False
    root = Path(probing) if probing else None
    done, places = read_results(out).tasks, roots(data, root)
    there, _ = available(tasks, data, root)
    return all(
        task.name in done and done[task.name].get("files") == _digest(task, places[task.group]) for task in there
    )


def training(folder: Path, overrides: Sequence[str], passed: Sequence[str]) -> list[str] | None:
    """Python's arguments to begin the run in ``folder``, or to go on with it; None where it is finished.

    Args:
        folder: of the run.
        overrides: that the run begins with.
        passed: what the user gave for all runs; what a run that goes on may be given, it gets anew.

    Raises:
        UserError: if what is in ``folder`` cannot be read.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a link: replace it by what it leads to.")
    match state(folder):
        case "finished":
            return None
        case "broken":
            problem = runs.read(folder)["problem"]
            raise UserError(
                f"{folder} cannot be read ({problem}): delete it, and the same command trains it again."
            )
        case "begun":
            kept = [text for text in passed if key_of(text) in RESUME_KEYS]
            return [TRAIN, override("resume", folder), *kept]
    return [TRAIN, *overrides, "evaluation=quick", override("run_dir", folder)]


def evaluation(
    folder: Path,
    *,
    data: Path,
    protocol: str,
    passed: Sequence[str],
    threads: int,
    tasks: Sequence[str] | None = None,
    probing: str | None = None,
    pooling: str = "",
) -> list[str] | None:
    """Python's arguments to judge the run in ``folder`` on SentEval's ``data``; None where all is judged."""
    out = results_folder(folder, protocol, pooling)
    if complete(out, data, tasks, probing):
        return None
    given = [text for text in passed if key_of(text) in ("device", "cache")]
    wanted = {"model": folder, "data": data, "protocol": protocol, "out": out, "threads": threads}
    more = {"probing": probing, "pooling": pooling or None, "tasks": tasks}
    given += [override(key, value) for key, value in more.items() if value is not None]
    return [EVALUATE, *(override(key, value) for key, value in wanted.items()), *given]


def differences(folders: Sequence[Path]) -> list[str]:
    """A line for each thing in which the finished runs differ that their names do not tell: code, and the start.

    A run goes by its configuration; with weights=auto the same one begins elsewhere once the hub can be reached.
    """
    commits: dict[str, None] = {}
    starts: dict[tuple[str, str], dict[str, None]] = {}
    for folder in folders:
        if (row := runs.read(folder))["state"] != "finished":
            continue
        with suppress(*runs.UNREADABLE):  # which is told where the run is shown
            config = read_yaml(folder / "config.yaml")
            commits[environment(folder).get("commit") or "no commit"] = None
            same = json.dumps([config.get(key) for key in ("encoder", "weights", "corpus")], sort_keys=True)
            pair = f"{row['objective']} with {row['encoder']}"
            origin = str(row["origin"]).split(LEARNS)[0]  # which tasks are made up is no start
            starts.setdefault((pair, same), {})[origin] = None
    found = [f"runs are of different code: {', '.join(commits)}"] if len(commits) > 1 else []
    for (pair, _), origins in starts.items():
        if len(origins) > 1:
            found.append(f"runs of {pair} began from {' and from '.join(origins)}")
    return found


def log_of(folder: Path) -> Path:
    """The file that gets what the commands of the run in ``folder`` say."""
    return folder.parent / "logs" / f"{folder.name}.log"


def bring_to_end(jobs: Sequence[Job], *, at_once: int, threads: int, display: Display) -> dict[str, Failure]:
    """``run_jobs`` with its progress and then its time shown: what failed, by the job's name.

    Raises:
        UserError: if the folder of the logs is a link or has one that leaves it: other files would be written.
        KeyboardInterrupt: with what the user is told, after all runs have stopped.
    """
    for logs in {job.log.parent for job in jobs}:
        if logs.is_symlink():
            raise UserError(f"{logs} is a link: replace it by what it leads to.")
        refuse_links_out(logs)
    started = time.monotonic()
    try:
        with watched(display) as watch:
            failed = run_jobs(jobs, at_once=at_once, threads=threads, watch=watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Stopped; the runs keep what they have. The same command goes on.") from None
    if (seconds := time.monotonic() - started) >= 1:  # else all was there
        display.fact("took", f"{about(seconds)}, {at_once} at a time")
    return failed


@contextmanager
def watched(display: Display) -> Iterator[Watch]:
    """Shows a line for each run at work and the time left for all; where there is no terminal, now and then."""
    clock = Clock()
    told = False

    def left(share: float) -> str:
        nonlocal told
        if not told:  # runs that were there are done at once
            clock.restart(share)
        told, clock.share = True, share
        return clock.left()

    if not display.console.is_terminal:
        due = [time.monotonic() + PLAIN_SECONDS]

        def plain(at_work: Sequence[Working], share: float) -> None:
            text = left(share)
            if time.monotonic() >= due[0] and at_work:
                due[0] = time.monotonic() + PLAIN_SECONDS
                names = ", ".join(f"{one.job.name} {one.share:.0%}" for one in at_work)
                display.say(f"{share:4.0%} of all  {text}  at work: {names}")

        yield plain
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[text]}")
    with Progress(*columns, console=display.console, transient=True) as live:
        whole = live.add_task("all runs", total=1.0, text="")
        shown: dict[str, TaskID] = {}

        def update(at_work: Sequence[Working], share: float) -> None:
            live.update(whole, completed=share, text=left(share))
            there = {one.job.name for one in at_work}
            for name in [name for name in shown if name not in there]:
                live.remove_task(shown.pop(name))
            for one in at_work:
                if one.job.name not in shown:
                    shown[one.job.name] = live.add_task(one.job.name, total=1.0, text="")
                text = f"{one.share:.0%}" if one.place == 0 else "SentEval"
                live.update(shown[one.job.name], completed=one.share, text=text)

        yield update
