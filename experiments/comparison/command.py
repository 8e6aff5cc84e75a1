"""Runs a comparison: trains missing runs, evaluates them, embeds sentences with them, and writes the page."""

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
from analysis.comparison.page import Page, render
from analysis.comparison.reading import BEFORE, Run
from analysis.comparison.views import ObjectiveView
from analysis.models import EXPORT
from data.errors import UnfitError, UserError, reason
from data.files import atomic_write
from data.tokenising import cores
from experiments import building, planned_runs
from experiments.comparison.examples import Document, examples
from experiments.comparison.planning import Planned, equality, folder_of, plan, starts
from experiments.comparison.settings import ComparisonSettings
from experiments.jobs import Job
from experiments.planned_runs import Evaluation, evaluation_of, results_folder, state
from experiments.progress import Display


def compare(wanted: ComparisonSettings, passed: Sequence[str]) -> int:
    """Makes the page; returns the exit status, 1 if a possible run or its evaluation failed.

    Raises:
        UserError: for mistakes that the user can correct, and if no run is finished.
        KeyboardInterrupt: if interrupted, after all runs have stopped; the same command continues them.
    """
    display = Display()
    senteval = planned_runs.senteval_folder(wanted.data, wanted.tasks)
    planned = plan(wanted, passed)
    folders = [folder_of(wanted, run) for run in planned]
    states = [state(folder) for folder in folders]
    impossible = _impossible(
        [run for run, kind in zip(planned, states, strict=True) if kind == "missing"], display
    )
    shown = ["impossible" if run.pair in impossible else kind for run, kind in zip(planned, states, strict=True)]
    display.fact("runs", planned_runs.count_states(shown, wanted.runs, wanted.jobs))
    display.fact("budget", equality(wanted))
    possible = [run for run in planned if run.pair not in impossible]
    untrained = [] if senteval is None else starts(possible)
    if wanted.dry_run:
        table = Table("run", "state", header_style="bold")
        for run, kind in zip(planned, shown, strict=True):
            table.add_row(escape(run.name), kind)
        for run in untrained:
            table.add_row(f"{escape(run.name)} ({BEFORE})", state(folder_of(wanted, run)))
        display.console.print(table)
        return 0
    failed = _train(wanted, [*untrained, *possible], passed, senteval, display)
    runs = [_result(wanted, run, failed, impossible.get(run.pair)) for run in planned]
    before = [_result(wanted, run, failed, None) for run in untrained]
    for one in [*before, *runs]:
        if one.problem and one.possible:
            display.say(f"failed      {one.name}: {one.problem}", style="red")
        elif one.not_evaluated:
            display.say(f"not evaluated  {one.name}, seed {one.seed}: {one.not_evaluated}", style="red")
    for line in planned_runs.differences(folders):
        display.warn(line)
    if not reading.finished(runs):
        raise UserError("No run is finished, so there is nothing to compare.")
    configs = {folder: run.config for folder, run in zip(folders, planned, strict=True)}
    out = Path(wanted.out)
    html = render(_page(wanted, runs, before, configs, display))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as file:
            file.write(html)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({reason(error)}): out=<file> sets another file.") from error
    display.fact("page", f"{out}  ({out.stat().st_size / 2**20:.1f} MiB)")
    return 1 if any(one.not_evaluated or (one.problem and one.possible) for one in [*before, *runs]) else 0


def _impossible(planned: Sequence[Planned], display: Display) -> dict[tuple[str, str], str]:
    """Returns why objectives cannot train encoders, by pair, after a line for each, before anything is trained.

    Raises:
        UserError: with a line for each other reason why an encoder cannot be built: a file that it lacks, say.
    """
    found: dict[tuple[str, str], str] = {}
    faults: dict[str, None] = {}
    for run in {run.pair: run for run in planned}.values():
        try:
            building.require_fit({**run.config})
        except UnfitError as error:
            found[run.pair] = str(error)
            display.say(f"impossible  {' · '.join(run.pair)}: {error}", style="red")
        except UserError as error:
            faults[f"{'settings.' * str(error).startswith('encoder.')}{run.encoder}: {error}"] = None
    if faults:
        raise UserError(*faults)
    return found


def _train(
    wanted: ComparisonSettings,
    planned: Sequence[Planned],
    passed: Sequence[str],
    senteval: Path | None,
    display: Display,
) -> dict[str, str]:
    """Trains and evaluates all runs that are not finished; returns why jobs failed, by their names."""
    threads = wanted.threads or max(1, cores() // wanted.jobs)
    evaluation = None
    if senteval is not None:
        evaluation = Evaluation(senteval, wanted.protocol, wanted.tasks, None, threads, wanted.jobs, passed)
    jobs = list[Job]()
    for run in planned:
        folder = folder_of(wanted, run)
        own = "none" if run.objective == BEFORE else "quick"
        jobs.append(planned_runs.job(folder, partial(planned_runs.training, folder, run.overrides, passed, own)))
        if evaluation is not None:
            jobs.append(evaluation.job(folder))
    return planned_runs.train_and_evaluate(jobs, at_once=wanted.jobs, threads=threads, display=display)


def _result(wanted: ComparisonSettings, run: Planned, failed: Mapping[str, str], impossible: str | None) -> Run:
    """Reads a run; ``failed`` is why jobs failed, ``impossible`` why the objective cannot train the encoder."""
    folder, problem = folder_of(wanted, run), failed.get(run.name) or failed.get(evaluation_of(run.name), "")
    if impossible is not None or state(folder) == "missing":
        why = impossible or problem or "The run did not start."
        return Run(run.objective, run.encoder, run.seed, run.command, possible=impossible is None, problem=why)
    results = results_folder(folder, wanted.protocol)
    found = reading.read(run.objective, run.encoder, run.seed, run.command, folder, results)
    if problem and found.problem:
        return replace(found, problem=problem)
    return replace(found, not_evaluated=problem)


def _page(
    wanted: ComparisonSettings,
    runs: Sequence[Run],
    before: Sequence[Run],
    configs: Mapping[Path, Mapping[str, Any]],
    display: Display,
) -> Page:
    document, views, texts = Document(), list[ObjectiveView](), list[str]()
    for objective in wanted.objectives:
        folder = next((run.folder for run in reading.finished(runs) if run.objective == objective), None)
        if folder is None:
            views.append(ObjectiveView(objective, problem="no run of it is finished"))
            continue
        display.say(f"Sampling an example of {objective} ...", style="dim")
        try:
            view, held_out = examples(objective, configs[folder], folder, document)
        except Exception as error:  # a page without one example is better than no page
            views.append(ObjectiveView(objective, problem=f"{type(error).__name__}: {reason(error)}"))
            continue
        views.append(view)
        texts = texts or held_out
    page = Page(
        objectives=tuple(wanted.objectives),
        encoders=tuple(wanted.encoders),
        budget=wanted.budget,
        equal=equality(wanted),
        command=shlex.join(["python", "experiments/compare.py", *sys.argv[1:]]),
        runs=tuple(runs),
        before=tuple(before),
        views=tuple(views),
    )
    try:
        sample = geometry.sample(texts, wanted.queries)
        spaces = {}
        for run in reading.leading(runs):
            display.say(f"Embedding sentences with {run.name} ...", style="dim")
            assert run.folder is not None
            spaces[run.name] = geometry.embed(encoders.load(run.folder / EXPORT).eval(), sample)
    except UserError as error:
        return replace(page, problems=(f"Maps and neighbours: {error}",))
    return replace(page, sample=sample, geometry=spaces)
