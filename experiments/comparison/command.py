"""What ``compare.py`` does: trains what is not there, judges it, looks at it, and writes the page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

import encoders
from analysis.comparison import geometry, reading
from analysis.comparison.contents import Comparison, ObjectiveView
from analysis.comparison.geometry import Geometry, Sample
from analysis.comparison.page import render
from analysis.comparison.reading import Run
from analysis.opening import EXPORT
from analysis.senteval.tasks import available
from data.errors import UnfitError, UserError, reason
from data.files import atomic_write
from data.tokenising import cores
from experiments import side_by_side
from experiments.comparison.drawing import Example, drawn
from experiments.comparison.planning import Planned, equality, folder_of, plan
from experiments.comparison.settings import ComparisonSettings
from experiments.evaluation import DOWNLOADED
from experiments.pool import Failure, Job
from experiments.progress import Display
from experiments.run_folder import ROOT
from experiments.side_by_side import results_folder, state


def compare(wanted: ComparisonSettings, passed: Sequence[str]) -> int:
    """Makes the page; returns the exit status: 1 where a possible run, or what judges it, failed.

    Raises:
        UserError: for what the user can mend; where no run is finished at all.
        KeyboardInterrupt: if it was interrupted, after all runs have stopped; the same command goes on.
    """
    display = Display()
    senteval = _senteval(wanted)
    planned = plan(wanted, passed)
    states = [state(folder_of(wanted, run)) for run in planned]
    display.fact("runs", side_by_side.how_far(states, wanted.runs, wanted.jobs))
    display.fact("budget", equality(wanted))
    if wanted.dry_run:
        table = Table("run", "state", header_style="bold")
        for run, kind in zip(planned, states, strict=True):
            table.add_row(escape(run.name), kind)
        display.console.print(table)
        return 0
    failed = _train(wanted, planned, passed, senteval, display)
    runs = [_result(wanted, run, failed.get(run.name)) for run in planned]
    for one in runs:
        if one.problem:
            display.say(f"{'failed' if one.possible else 'impossible':<11} {one.name}: {one.problem}", style="red")
        elif one.unjudged:
            display.say(f"not judged  {one.name}, seed {one.seed}: {one.unjudged}", style="red")
    for line in side_by_side.differences([folder_of(wanted, run) for run in planned]):
        display.warn(line)
    if not reading.finished(runs):
        raise UserError(f"None of the {len(runs)} runs is finished, and there is nothing to compare.")
    configs = {folder_of(wanted, run): run.config for run in planned}
    out = _write(wanted, _page(wanted, runs, configs, display))
    display.fact("page", f"{out}  ({out.stat().st_size / 2**20:.1f} MiB)")
    return 1 if any(one.unjudged or (one.problem and one.possible) for one in runs) else 0


def _train(
    wanted: ComparisonSettings,
    planned: Sequence[Planned],
    passed: Sequence[str],
    senteval: Path | None,
    display: Display,
) -> dict[str, Failure]:
    """Brings all runs to their end; what failed, by the run's name."""
    threads = wanted.threads or max(1, cores() // wanted.jobs)
    jobs = []
    for run in planned:
        folder = folder_of(wanted, run)
        commands = [partial(side_by_side.training, folder, run.overrides, passed)]
        if senteval is not None:
            judging = partial(
                side_by_side.evaluation,
                folder,
                data=senteval,
                protocol=wanted.protocol,
                passed=passed,
                threads=threads,
                tasks=wanted.tasks,
            )
            commands.append(judging)
        jobs.append(Job(run.name, commands, side_by_side.log_of(folder), folder=folder))
    return side_by_side.bring_to_end(jobs, at_once=wanted.jobs, threads=threads, display=display)


def _senteval(wanted: ComparisonSettings) -> Path | None:
    """The folder that runs are judged on; None where there is none.

    Raises:
        UserError: if it has no file of the tasks.
    """
    folder = Path(wanted.data) if wanted.data else ROOT / DOWNLOADED
    if not folder.is_dir():
        return None
    available(wanted.tasks, folder, keys=("data",))
    return folder


def _result(wanted: ComparisonSettings, run: Planned, failure: Failure | None) -> Run:
    """What a run left behind; one whose objective refused its encoder was impossible."""
    folder = folder_of(wanted, run)
    problem = failure.line if failure else ""
    if state(folder) == "missing":
        possible = failure is None or failure.status != UnfitError.status
        line = problem or "The run was not begun."
        return Run(run.objective, run.encoder, run.seed, run.command, possible=possible, problem=line)
    judged = results_folder(folder, wanted.protocol)
    found = reading.read(run.objective, run.encoder, run.seed, run.command, folder, judged)
    if problem and found.problem:
        return replace(found, problem=problem)
    return replace(found, unjudged=problem)


def _page(
    wanted: ComparisonSettings, runs: Sequence[Run], configs: Mapping[Path, Mapping[str, Any]], display: Display
) -> Comparison:
    problems: list[str] = []
    example, views, texts = Example(), list[ObjectiveView](), list[str]()
    for objective in wanted.objectives:
        done = [run for run in reading.finished(runs) if run.objective == objective]
        if not done:
            views.append(ObjectiveView(objective, problem="no run of it is finished"))
            continue
        display.say(f"Drawing an example of {objective} ...", style="dim")
        folder = done[0].folder
        assert folder is not None
        try:
            view, held_out = drawn(configs[folder], folder, example)
        except Exception as error:  # a page without one picture is better than none
            views.append(ObjectiveView(objective, problem=f"{type(error).__name__}: {reason(error)}"))
            continue
        views.append(view)
        texts = texts or held_out
    sample, found = None, dict[str, Geometry]()
    try:
        sample = geometry.sample(texts, wanted.queries)
        found = _geometry(reading.leading(runs), sample, display)
    except UserError as error:
        problems.append(f"Maps and neighbours: {error}")
    return Comparison(
        objectives=tuple(wanted.objectives),
        encoders=tuple(wanted.encoders),
        budget=wanted.budget,
        equal=equality(wanted),
        command=shlex.join(["python", "experiments/compare.py", *sys.argv[1:]]),
        runs=tuple(runs),
        views=tuple(views),
        sample=sample,
        geometry=found,
        problems=tuple(problems),
    )


def _geometry(runs: Sequence[Run], sample: Sample, display: Display) -> dict[str, Geometry]:
    """By pair, what the encoder of its first seed makes of the sample."""
    found = {}
    for run in runs:
        display.say(f"Looking at the vectors of {run.name} ...", style="dim")
        assert run.folder is not None
        found[run.name] = geometry.look(encoders.load(run.folder / EXPORT).eval(), sample)
    return found


def _write(wanted: ComparisonSettings, page: Comparison) -> Path:
    out = Path(wanted.out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as file:
            file.write(render(page))
    except OSError as error:
        raise UserError(f"{out} cannot be written ({reason(error)}): out=<file> names another.") from error
    return out
