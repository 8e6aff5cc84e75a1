"""Runs beside each other: the commands that begin, go on with and judge one, and the progress of all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from experiments.arguments import key_of
from experiments.children import Watch, Working
from experiments.compose import RESUME_KEYS
from experiments.judging import PLAIN_SECONDS, Clock
from experiments.progress import Display
from experiments.reproduction.planning import state
from experiments.run_folder import ROOT

TRAIN, EVALUATE = (str(ROOT / "experiments" / script) for script in ("run.py", "evaluate.py"))


def training(folder: Path, overrides: Sequence[str], passed: Sequence[str], threads: int) -> list[str] | None:
    """Python's arguments to begin the run in ``folder``, or to go on with it; None where it is finished.

    Args:
        folder: of the run.
        overrides: that the run begins with.
        passed: what the user gave for all runs; what a run that goes on may be given, it gets anew.
        threads: of a CPU.
    """
    match state(folder):
        case "finished":
            return None
        case "begun":
            kept = [text for text in passed if key_of(text) in RESUME_KEYS]
            return [TRAIN, f"resume={folder}", f"threads={threads}", *kept]
    return [TRAIN, *overrides, "evaluation=quick", f"threads={threads}", f"run_dir={folder}"]


def evaluation(
    folder: Path,
    *,
    data: Path,
    protocol: str,
    out: Path,
    passed: Sequence[str],
    threads: int,
    tasks: Sequence[str] | None = None,
    probing: str | None = None,
) -> list[str]:
    """Python's arguments to judge the run in ``folder`` on SentEval's ``data``, with results in ``out``."""
    given = [text for text in passed if key_of(text) in ("device", "cache")]
    if probing is not None:
        given.append(f"probing={probing}")
    if tasks is not None:
        given.append(f"tasks=[{','.join(tasks)}]")
    judging = [f"data={data}", f"protocol={protocol}", f"out={out}", f"threads={threads}"]
    return [EVALUATE, f"model={folder}", *judging, *given]


@contextmanager
def watched(display: Display) -> Iterator[Watch]:
    """Shows a line for each run at work and the time left for all; where there is no terminal, now and then."""
    clock = Clock()
    if not display.console.is_terminal:
        due = [time.monotonic() + PLAIN_SECONDS]

        def plain(at_work: Sequence[Working], share: float) -> None:
            clock.share = share
            if time.monotonic() >= due[0] and at_work:
                due[0] = time.monotonic() + PLAIN_SECONDS
                told = ", ".join(f"{one.job.name} {one.share:.0%}" for one in at_work)
                display.say(f"{share:4.0%} of all  {clock.left()}  at work: {told}")

        yield plain
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}")
    with Progress(*columns, console=display.console, transient=True) as live:
        whole = live.add_task("all runs", total=1.0, text="")
        shown: dict[str, TaskID] = {}

        def update(at_work: Sequence[Working], share: float) -> None:
            clock.share = share
            live.update(whole, completed=share, text=clock.left())
            there = {one.job.name for one in at_work}
            for name in [name for name in shown if name not in there]:
                live.remove_task(shown.pop(name))
            for one in at_work:
                if one.job.name not in shown:
                    shown[one.job.name] = live.add_task(one.job.name, total=1.0, text="")
                text = f"{one.share:.0%}" if one.place == 0 else "SentEval"
                live.update(shown[one.job.name], completed=one.share, text=text)

        yield update
