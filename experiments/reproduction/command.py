"""The command ``reproduce.py``: lists, plans, trains runs side by side, evaluates them, draws or tabulates."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from analysis import projection_map
from analysis.command import Model
from analysis.figures import catalogue, labelled_maps, reproduction
from analysis.figures.exhibits import Ensemble, Exhibit, Figure, Table
from analysis.models import Named, device
from analysis.reporting.ensemble import ensemble
from analysis.reporting.ranking import rank
from analysis.reporting.rendering import as_text
from analysis.senteval.results import Results
from analysis.senteval.tasks import TASKS, available
from analysis.syntax import TREEBANK
from data.display import duration
from data.errors import UserError
from experiments import side_by_side
from experiments.evaluation import DOWNLOADED
from experiments.pool import Failure, Job
from experiments.progress import Display
from experiments.reproduction import joining, planning, results, tables
from experiments.reproduction.planning import Run
from experiments.reproduction.results import Found
from experiments.reproduction.settings import Reproduction
from experiments.reproduction.work import Work, apart, listing, on_senteval, room, tasks_of
from experiments.run_folder import ROOT
from experiments.side_by_side import results_folder

MAP_DATA = "SentEval's folder, or one of labelled sentences (.tsv[.gz]: label, tab, text), or one such file"


def reproduce(wanted: Reproduction, passed: Sequence[str]) -> int:
    """Makes the figure or table that is asked for; returns the exit status, 1 where something is missing.

    Raises:
        UserError: for what the user can correct.
        KeyboardInterrupt: if it was interrupted, after all runs have stopped; the same command continues.
    """
    display = Display()
    if wanted.list:
        _print(listing())
        for name in catalogue.names():
            for line in catalogue.EXHIBITS[name].departures:
                display.say(f"{name}: {line}", style="dim")
        return 0
    exhibit = catalogue.find(str(wanted.figure))
    if wanted.data == TREEBANK and not (isinstance(exhibit, Table) and TREEBANK in exhibit.needs):
        raise UserError(f"data={TREEBANK}: {exhibit.id} is not of trees; data=<folder> names its data.")
    for key in planning.not_taken(exhibit, wanted):
        more = " (GenSen's rows take objective.nli=)" if key == "nli" else ""
        raise UserError(f"{key}: {exhibit.id} has no row that takes it{more}.")
    if not wanted.dry_run:
        _require_data(exhibit, wanted)
    senteval = _senteval(exhibit, wanted)
    planned = planning.plan(exhibit, wanted, passed, joined=not apart(exhibit, wanted, senteval))
    work = Work(exhibit, wanted, passed, planned, senteval, wanted.jobs or room(wanted.threads), display)
    _announce(work)
    if wanted.dry_run:
        if planned:
            _print(work.table())
        return 0
    return _show(work, _train_and_evaluate(work))


def _require_data(exhibit: Exhibit, wanted: Reproduction) -> None:
    """Refuses a figure or table of other data than SentEval's, before anything is trained, where none is named."""
    mapped = isinstance(exhibit, Figure) and exhibit.kind == "map"
    needs = MAP_DATA if mapped else exhibit.needs if isinstance(exhibit, Table) else ""
    if needs and wanted.data is None:
        raise UserError(f"data is not set: {exhibit.id} needs {needs}.")
    if isinstance(exhibit, Figure) and mapped:
        labelled_maps.require(Path(str(wanted.data)), exhibit.settings.get("senteval", {}))


def _print(table: RichTable) -> None:
    """Prints a table at its full width: a name that is cut cannot be copied."""
    Console(width=Console(width=1000).measure(table).maximum).print(table)


def _announce(work: Work) -> None:
    """Shows what is going to be done, in a few lines."""
    display, exhibit = work.display, work.exhibit
    display.fact("figure" if isinstance(exhibit, Figure) else "table", f"{exhibit.id}: {exhibit.title}")
    for line in exhibit.departures:
        display.warn(f"departure   {line}")
    if not work.planned:
        display.fact("runs", "none is needed")
        return
    states = {run: work.state(run) for run in work.planned}
    trained = {run.name: state for run, state in states.items() if not run.members}
    there: list[side_by_side.State] = [
        "finished" if state == "not evaluated" else state for state in trained.values()
    ]
    display.fact("runs", side_by_side.how_far(there, work.runs, work.at_once))
    if joined := len({run.name for run in work.planned if run.members}):
        display.fact("joined", f"{joined} of two or more of these, side by side")
    known = planning.timed(work.grid, work.passed)
    left = f"about {duration(work.seconds(states))}" if known else "unknown"
    own = "" if work.wanted.tasks is None else " (assuming the figure's own tasks for the evaluation)"
    display.fact("time", f"{left} here, for what is not finished{own}")
    if isinstance(exhibit, Figure) and exhibit.kind == "map":
        display.fact("scores", f"share of sentences of {work.wanted.data} with their neighbours' label in a map")
    elif on_senteval(exhibit):
        if work.senteval is None:
            display.fact(
                "scores", "quick evaluation on held-out text; data=<SentEval folder> evaluates on SentEval"
            )
        else:
            tasks = ", ".join(work.tasks) if work.tasks else "all whose files are there"
            display.fact("scores", f"SentEval in {work.senteval}, protocol {work.protocol}: {tasks}")
    for line in planning.left_out(exhibit, work.wanted):
        display.warn(f"left out    {line}")


def _senteval(exhibit: Exhibit, wanted: Reproduction) -> Path | None:
    """SentEval's folder, where the figure is evaluated on it and it is there.

    Raises:
        UserError: if it has no file of the tasks.
    """
    if not on_senteval(exhibit):
        return None
    folder = ROOT / DOWNLOADED if wanted.data is None else Path(wanted.data)
    if wanted.data is None and not folder.is_dir():
        return None
    available(tasks_of(exhibit, wanted), folder, Path(wanted.probing) if wanted.probing else None)
    return folder


def _train_and_evaluate(work: Work) -> dict[str, Failure]:
    """Completes all runs; returns what failed, by the run's name."""
    if not work.planned:
        return {}
    jobs = []
    for name in dict.fromkeys(run.name for run in work.planned):
        same = [run for run in work.planned if run.name == name]
        evaluations = (partial(work.evaluation, run) for run in same if run.evaluated)
        weight = planning.core_seconds(same, work.grid)
        commands = [partial(_training, work, same[0]), *evaluations]
        folder = work.runs / name
        jobs.append(Job(name, commands, side_by_side.log_of(folder), weight, same[0].members, folder))
    failed = side_by_side.bring_to_end(
        jobs, at_once=work.at_once, threads=work.wanted.threads, display=work.display
    )
    for name, failure in failed.items():
        work.display.say(f"failed      {name}: {failure.line}", style="red")
    for line in side_by_side.differences(work.folders):
        work.display.warn(line)
    return failed


def _training(work: Work, run: Run) -> list[str] | None:
    """The command that trains a run; None where it is finished, or joins others, which is done at once."""
    folder = work.runs / run.name
    if run.members:
        joining.join(folder, [work.runs / name for name in run.members])
        return None
    return side_by_side.training(folder, run.overrides, work.passed)


def _show(work: Work, failed: dict[str, Failure]) -> int:
    """Draws or tabulates what there is; returns 1 where something is missing."""
    exhibit, display = work.exhibit, work.display
    found = results.collect(work.planned, work.runs, work.protocol)
    if exhibit.ensemble is not None and work.senteval is not None:
        found.ensembles = _ensembles(work, exhibit.ensemble, found)
    finish = _draw if isinstance(exhibit, Figure) else _tabulate
    for path in finish(work, found, _notes(work, found)):
        display.fact(path.suffix.lstrip("."), str(path))
    missing = _missing(work, found)
    for name in missing:
        why = failed[name].line if name in failed else "not finished"
        display.say(f"missing     {name}: {why}", style="red")
    return 1 if missing or failed else 0


def _missing(work: Work, found: Found) -> list[str]:
    """Names of runs that should be shown and are not finished."""
    return list(dict.fromkeys(run.name for run in work.planned if run.evaluated and run not in found.facts))


def _notes(work: Work, found: Found) -> list[str]:
    """Facts that a reader must know about the runs behind a picture or table."""
    exhibit, wanted = work.exhibit, work.wanted
    shown, lacking = [*found.facts], 0
    if work.senteval is not None:
        shown, lacking = results.scored(found, work.tasks)
    notes = [results.sizes(found, wanted.budget, shown) + "."] if work.planned else []
    if wanted.only:
        notes.append(
            f"A part of it: {', '.join(f'only.{axis}={labels}' for axis, labels in wanted.only.items())}."
        )
    every = len({run.name for run in work.planned if run.evaluated})
    if missing := len(_missing(work, found)):
        notes.append(f"{missing} of {every} {work.noun} are missing.")
    if lacking:
        notes.append(f"{lacking} of {every} {work.noun} are finished but not evaluated on all tasks.")
    if apart(exhibit, wanted, work.senteval):
        notes.append("Joined encoders are evaluated on SentEval only (data=<folder>): here each one is a row.")
    notes += [f"Left out: {line}." for line in planning.left_out(exhibit, wanted)]
    return notes + [f"Not as in the paper: {line}" for line in exhibit.departures]


def _draw(work: Work, found: Found, notes: list[str]) -> list[Path]:
    figure, out = work.exhibit, Path(work.wanted.out)
    assert isinstance(figure, Figure)
    if figure.kind == "map":
        return reproduction.draw(figure, [], out, " ".join(notes), _maps(work, figure))
    if not work.planned:
        return reproduction.draw(figure, [], out, " ".join(["No run is trained for it.", *notes]))
    senteval = work.senteval is not None
    if not (found.senteval if senteval else found.quick):
        raise UserError(
            f"None of the {len(work.planned)} runs is finished and evaluated: there is nothing to draw."
        )
    if senteval:
        points, marks, more = results.senteval_points(figure, found)
        shown = replace(figure, printed=marks)
    else:
        shown, points, more = results.quick_points(figure, found)
    by = results.stands_in(figure, found, senteval=senteval)
    return reproduction.draw(shown, points, out, " ".join([*notes, *more]), by=by)


def _maps(work: Work, figure: Figure) -> list[labelled_maps.LabelledMap]:
    """A map of each set of labelled sentences in data=, by each finished run.

    Raises:
        UserError: if no run is finished, or the data cannot be read.
    """
    finished = [run for run in work.planned if run.evaluated and (work.runs / run.name / "encoder").is_dir()]
    if not finished:
        raise UserError("There is nothing to draw: no run is finished.")
    size, seed = int(figure.settings.get("sample", 1000)), int(figure.settings.get("seed", 0))
    data = labelled_maps.labelled_sets(Path(str(work.wanted.data)), figure.settings.get("senteval", {}))
    sets = {name: projection_map.sample(labelled, size, seed) for name, labelled in data}
    maps = []
    for run in finished:
        model = Model(run.name, Named(str(work.runs / run.name)).open(device("auto")))
        label = run.labels.get(figure.point["group"], "")
        maps += [
            labelled_maps.labelled_map(
                panel, sample, model.rows(sample.texts), seed=run.seed, run=run.name, model=label
            )
            for panel, sample in sets.items()
        ]
    return maps


def _tabulate(work: Work, found: Found, notes: list[str]) -> list[Path]:
    table, out = work.exhibit, Path(work.wanted.out)
    assert isinstance(table, Table)
    if not work.planned:
        return tables.write(table, tables.untrained(table, work.passed), out, notes)
    if not found.facts:
        count = sum(run.evaluated for run in work.planned)
        raise UserError(f"None of the {count} {work.noun} is there: there is nothing to tabulate.")
    if table.command:
        models = {f"{tables.row_of(run, found)}, seed {run.seed}": work.runs / run.name for run in found.facts}
        text = tables.command_text(table, models, str(work.wanted.data))
        work.display.say(text)
        return tables.write(table, text, out, notes)
    if work.senteval is None:
        grid = tables.quick_grid(table, found)
    elif not found.senteval:
        raise UserError("None of the runs is evaluated on SentEval: there is nothing to tabulate.")
    else:
        grid, more = tables.senteval_table(table, found)
        notes += [*more, "\n".join(results.claimed(table, found))]
    work.display.say(as_text(grid, work.display.console.width))
    return tables.write(table, grid, out, notes)


def _ensembles(work: Work, wanted: Ensemble, found: Found) -> dict[int, Results]:
    """By seed, the ensemble of the best run of each member by mean dev score (ConsSent, section 5)."""
    result: dict[int, Results] = {}
    for seed in dict.fromkeys(run.seed for run in found.senteval):
        members = {
            run: one
            for run, one in found.senteval.items()
            if run.seed == seed and run.labels[wanted.axis].startswith(tuple(wanted.members))
        }
        groups: dict[str, list[Path]] = {}
        for run in members:
            folder = results_folder(work.runs / run.name, str(work.protocol), run.pooling)
            groups.setdefault(run.labels[wanted.axis], []).append(folder)
        # Runs are shared with other figures, which may have evaluated them on other tasks.
        tasks = [name for name in work.tasks or TASKS if all(name in one.tasks for one in members.values())]
        if len(groups) < len(wanted.members) or not tasks:
            continue  # a member is missing: it would be another ensemble
        out = Path(work.wanted.out) / f"{work.exhibit.name}-ensemble-{seed}"
        try:
            best = [rank(folders, (), tasks).groups["all"][0].folder for folders in groups.values()]
            shutil.rmtree(out, ignore_errors=True)  # of an earlier call, whose members may have been others
            out.mkdir(parents=True, exist_ok=True)
            result[seed] = ensemble(best, out, tasks)
        except UserError as error:
            work.display.warn(f"left out    {wanted.group}, seed {seed}: {error}")
    return result
