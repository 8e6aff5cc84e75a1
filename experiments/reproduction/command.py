"""What ``reproduce.py`` does: lists, plans, trains several runs at a time, judges them, draws or tabulates."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from analysis.figures import reproduction
from analysis.senteval.best import rank
from analysis.senteval.ensemble import ensemble
from analysis.senteval.rendering import as_text
from analysis.senteval.results import Results
from analysis.senteval.tasks import TASKS, available
from analysis.syntax import TREEBANK
from data.errors import UserError
from experiments import budget, compose, side_by_side
from experiments.evaluation import DOWNLOADED
from experiments.pool import Failure, Job
from experiments.progress import Display
from experiments.reproduction import joining, judged, listing, maps, planning, tables
from experiments.reproduction.judged import Judged
from experiments.reproduction.planning import Run
from experiments.reproduction.settings import Reproduction
from experiments.reproduction.specification import Specification, find, names, read
from experiments.reproduction.work import Work, apart, room, scored, speed, tasks_of
from experiments.run_folder import ROOT
from experiments.side_by_side import results_folder


def reproduce(wanted: Reproduction, passed: Sequence[str]) -> int:
    """Does what is asked for; returns the exit status, 1 where something is missing in the end.

    Raises:
        UserError: for what the user can mend.
        KeyboardInterrupt: if it was interrupted, after all runs have stopped; the same command goes on.
    """
    display = Display()
    if wanted.list:
        _print(listing.catalogue())
        for name in names():
            for line in read(name).cannot:
                display.say(f"{name}: {line}", style="dim")
        return 0
    specification = read(find(str(wanted.figure)))
    if wanted.data == TREEBANK and TREEBANK not in (specification.table.needs if specification.table else ""):
        raise UserError(f"data={TREEBANK}: {specification.id} is not of trees; data=<folder> names its data.")
    for key in planning.not_taken(specification, wanted):
        more = " (GenSen's rows take objective.nli=)" if key == "nli" else ""
        raise UserError(f"{key}: {specification.id} has no row that takes it{more}.")
    if not wanted.dry_run:
        _ask_for_data(specification, wanted)
    senteval = _senteval(specification, wanted)
    planned = planning.plan(specification, wanted, passed, joined=not apart(specification, wanted, senteval))
    at_once = wanted.jobs or room(wanted.threads)
    work = Work(specification, wanted, passed, planned, senteval, at_once, display)
    _tell(work)
    if wanted.dry_run:
        if planned:
            _print(listing.table_of_runs(work))
        return 0
    return _show(work, _train_and_judge(work))


def _ask_for_data(specification: Specification, wanted: Reproduction) -> None:
    """Refuses, before anything is trained, what is judged on data that nobody named."""
    figure, table = specification.figure, specification.table
    needs = table.needs if table is not None and table.kind == "command" else ""
    mapped = figure if figure is not None and figure.kind == "map" else None
    if mapped:
        needs = "SentEval's folder, or one of labelled sentences (.tsv[.gz]: label, tab, text), or one such file"
    if needs and wanted.data is None:
        raise UserError(f"data is not set: {specification.id} needs {needs}.")
    if mapped and wanted.data is not None:
        maps.require(Path(wanted.data), mapped.settings.get("senteval", {}))


def _print(table: RichTable) -> None:
    """As wide as it is: a name that is cut cannot be copied."""
    Console(width=Console(width=1000).measure(table).maximum).print(table)


def _tell(work: Work) -> None:
    """What is going to be done, in a few lines."""
    display, specification = work.display, work.specification
    display.fact("figure" if specification.figure else "table", f"{specification.id}: {specification.title}")
    for line in specification.cannot:
        display.warn(f"not here     {line}")
    if not work.planned:
        display.fact("runs", "none is needed")
        return
    states = [(run, work.state(run)) for run in work.planned]
    grid = planning.grid_of(specification, work.wanted)
    operations = speed(work.wanted.threads)
    each = [
        grid.judged if state == "not judged" else planning.core_seconds([run], grid, operations)
        for run, state in states
        if state != "finished"
    ]
    seconds = max(sum(each) / work.at_once, *each, 0.0)
    time_left = f"about {budget.about(seconds)}" if planning.timed(grid, work.passed) else "unknown"
    trained = {run.name: state for run, state in states if not run.members}
    there = ["finished" if state == "not judged" else state for state in trained.values()]
    display.fact("runs", side_by_side.how_far(there, work.runs, work.at_once))
    if joined := len({run.name for run in work.planned if run.members}):
        display.fact("joined", f"{joined} of two or more of these, side by side")
    own = "" if work.wanted.tasks is None else " (judging as long as on the figure's own tasks)"
    display.fact("time", f"{time_left} here, for what is not finished{own}")
    if specification.figure is not None and specification.figure.kind == "map":
        display.fact(
            "scores", f"sentences of {work.wanted.data} whose nearest neighbours in a map have their label"
        )
    elif scored(specification):
        if work.senteval is None:
            display.fact("scores", "quick judgement on held-out text; data=<SentEval folder> judges on SentEval")
        else:
            tasks = ", ".join(work.tasks) if work.tasks else "all whose files are there"
            display.fact("scores", f"SentEval in {work.senteval}, protocol {work.protocol}: {tasks}")
    for line in planning.left_out(specification, work.wanted):
        display.warn(f"left out    {line}")


def _senteval(specification: Specification, wanted: Reproduction) -> Path | None:
    """SentEval's folder, where the figure is judged on it and it is there.

    Raises:
        UserError: if it has no file of the tasks.
    """
    if not scored(specification):
        return None
    folder = ROOT / DOWNLOADED if wanted.data is None else Path(wanted.data)
    if wanted.data is None and not folder.is_dir():
        return None
    available(tasks_of(specification, wanted), folder, Path(wanted.probing) if wanted.probing else None)
    return folder


def _train_and_judge(work: Work) -> dict[str, Failure]:
    """Brings all runs to their end; what failed, by the run's name."""
    if not work.planned:
        return {}
    grid = planning.grid_of(work.specification, work.wanted)
    jobs = []
    for name in dict.fromkeys(run.name for run in work.planned):
        alike = [run for run in work.planned if run.name == name]
        first = alike[0]
        judging = (partial(work.evaluation, run) for run in alike if run.judged)
        weight = planning.core_seconds(alike, grid)
        commands = [partial(_making, work, first), *judging]
        folder = work.runs / name
        jobs.append(Job(name, commands, side_by_side.log_of(folder), weight, first.members, folder))
    failed = side_by_side.bring_to_end(
        jobs, at_once=work.at_once, threads=work.wanted.threads, display=work.display
    )
    for name, failure in failed.items():
        work.display.say(f"failed      {name}: {failure.line}", style="red")
    for line in side_by_side.differences(work.folders):
        work.display.warn(line)
    return failed


def _making(work: Work, run: Run) -> list[str] | None:
    """The command that trains a run; None where it is finished, or joins others, which is done at once."""
    folder = work.runs / run.name
    if run.members:
        joining.join(folder, [work.runs / name for name in run.members])
        return None
    return side_by_side.training(folder, run.overrides, work.passed)


def _show(work: Work, failed: dict[str, Failure]) -> int:
    """Draws or tabulates what there is; 1 where something is missing."""
    specification, display = work.specification, work.display
    found = judged.collect(work.planned, work.runs, work.protocol)
    wanted_runs = {run.name for run in work.planned if run.judged}
    missing = list(dict.fromkeys(run.name for run in work.planned if run.judged and run not in found.facts))
    shown, lacking = [*found.facts], 0
    if work.senteval is not None:
        shown, lacking = judged.scored(found, work.tasks)
    notes = [judged.sizes(found, work.wanted.budget, shown) + "."] if work.planned else []
    if wanted := work.wanted.only:
        notes.append(f"A part of it: {', '.join(f'only.{axis}={labels}' for axis, labels in wanted.items())}.")
    if work.planned and missing:
        notes.append(f"{len(missing)} of {len(wanted_runs)} {work.what} are missing.")
    if lacking:
        notes.append(f"{lacking} of {len(wanted_runs)} {work.what} are finished but not judged on all tasks.")
    if apart(specification, work.wanted, work.senteval):
        notes.append(
            "What joins encoders is judged on SentEval alone (data=<folder>): a row is one of these here."
        )
    left_out = planning.left_out(specification, work.wanted)
    notes += [f"Left out: {line}." for line in left_out] + [
        f"Not as in the paper: {line}" for line in specification.cannot
    ]
    finish = _draw if specification.table is None else _tabulate
    for path in finish(work, found, notes):
        display.fact(path.suffix.lstrip("."), str(path))
    for name in missing:
        why = failed[name].line if name in failed else "not finished"
        display.say(f"missing     {name}: {why}", style="red")
    return 1 if missing or failed else 0


def _draw(work: Work, found: Judged, notes: list[str]) -> list[Path]:
    specification, out = work.specification, Path(work.wanted.out)
    figure = specification.figure
    assert figure is not None
    if figure.kind == "map":
        assert work.wanted.data is not None, "_ask_for_data says so"
        axis = specification.point["group"]
        drawn = maps.labelled(work.planned, work.runs, work.wanted.data, figure.settings, axis)
        return reproduction.draw(figure, [], out, " ".join(notes), drawn)
    if not work.planned:
        return reproduction.draw(figure, [], out, " ".join(["Nothing is trained for it.", *notes]))
    senteval = work.senteval is not None
    if not (found.senteval if senteval else found.quick):
        raise UserError(f"None of the {len(work.planned)} runs is finished and judged: there is nothing to draw.")
    ensembles = _ensembles(work, found) if senteval else {}
    figure, points, more = judged.shown(specification, found, ensembles, senteval=senteval)
    by = judged.stands_in(specification, found, senteval=senteval)
    return reproduction.draw(figure, points, out, " ".join([*notes, *more]), by=by)


def _tabulate(work: Work, found: Judged, notes: list[str]) -> list[Path]:
    specification, out = work.specification, Path(work.wanted.out)
    table = specification.table
    assert table is not None
    if not work.planned:
        config = partial(compose.check, [*specification.base, *work.passed])
        return tables.write(specification, tables.untrained(table, config), out, notes)
    if not found.facts:
        count = sum(run.judged for run in work.planned)
        raise UserError(f"None of the {count} {work.what} is there: there is nothing to tabulate.")
    if table.kind == "command":
        assert work.wanted.data is not None, "_ask_for_data says so"
        models = {
            f"{tables.row_of(specification, run, found)}, seed {run.seed}": work.runs / run.name
            for run in found.facts
        }
        text = tables.command_text(table, models, work.wanted.data)
        work.display.say(text)
        return tables.write(specification, text, out, notes)
    if work.senteval is None:
        grid = tables.quick_table(specification, found)
    elif not found.senteval:
        raise UserError("None of the runs is judged on SentEval: there is nothing to tabulate.")
    else:
        ensembles = _ensembles(work, found)
        grid, more = tables.senteval_table(specification, found, ensembles)
        notes += [*more, "\n".join(judged.claimed(specification, found, ensembles))]
    work.display.say(as_text(grid, work.display.console.width))
    return tables.write(specification, grid, out, notes)


def _ensembles(work: Work, found: Judged) -> dict[int, Results]:
    """By seed, the ensemble of the best member of each group by mean dev score (ConsSent, section 5)."""
    wanted = work.specification.ensemble
    result: dict[int, Results] = {}
    if wanted is None:
        return result
    for seed in dict.fromkeys(run.seed for run in found.senteval):
        members = {
            run: one
            for run, one in found.senteval.items()
            if run.seed == seed and run.labels[wanted["by"]].startswith(tuple(wanted["of"]))
        }
        groups: dict[str, list[Path]] = {}
        for run in members:
            folder = results_folder(work.runs / run.name, str(work.protocol), run.pooling)
            groups.setdefault(run.labels[wanted["by"]], []).append(folder)
        # Runs are shared with other figures, and may have been judged on other tasks for these.
        tasks = [name for name in work.tasks or TASKS if all(name in one.tasks for one in members.values())]
        if len(groups) < len(wanted["of"]) or not tasks:
            continue  # a member is missing: it would be another ensemble
        out = Path(work.wanted.out) / f"{work.specification.name}-ensemble-{seed}"
        try:
            best = [rank(folders, (), tasks).groups["all"][0].folder for folders in groups.values()]
            shutil.rmtree(out, ignore_errors=True)  # of a former call, whose members may have been others
            out.mkdir(parents=True, exist_ok=True)
            result[seed] = ensemble(best, out, tasks)
        except UserError as error:
            work.display.warn(f"left out    {wanted['group']}, seed {seed}: {error}")
    return result
