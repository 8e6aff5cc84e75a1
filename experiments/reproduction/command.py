"""The command ``reproduce.py``: lists, plans, trains runs side by side, evaluates them, draws or tabulates."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal, get_args

import torch
from rich.markup import escape
from rich.table import Table as RichTable

from analysis.figures import catalogue, labelled_maps, reproduction
from analysis.figures.exhibits import Ensemble, Exhibit, Figure, Grid, Table
from analysis.models import Model, Named
from analysis.reporting.ensemble import ensemble
from analysis.reporting.ranking import rank
from analysis.reporting.rendering import as_text
from analysis.senteval.results import FILE, Results
from analysis.senteval.tasks import TASKS
from analysis.settings import TREEBANK
from data.display import duration, wide_console
from data.errors import UserError
from data.tokenising import cores
from experiments import budget, planned_runs
from experiments.jobs import Job
from experiments.planned_runs import Evaluation, results_folder
from experiments.progress import Display
from experiments.reproduction import joining, planning, results, tables
from experiments.reproduction.planning import Run
from experiments.reproduction.results import Found
from experiments.reproduction.settings import Reproduction, Size

State = planned_runs.State | Literal["not evaluated"]
STYLES = {"finished": "green", "not evaluated": "yellow", "begun": "yellow", "broken": "red", "missing": "dim"}


@dataclass(frozen=True)
class Work:
    """A figure or table and how it is made here.

    Attributes:
        exhibit: the figure or table.
        wanted: what the command line asks for.
        passed: overrides of the runs.
        planned: the runs.
        senteval: their evaluation on SentEval, None where scores are of the quick evaluation.
        display: shows progress.
    """

    exhibit: Exhibit
    wanted: Reproduction
    passed: Sequence[str]
    planned: Sequence[Run]
    senteval: Evaluation | None
    display: Display

    @property
    def grid(self) -> Grid:
        """The grid that is asked for."""
        return planning.grid_of(self.exhibit, self.wanted)

    @property
    def runs(self) -> Path:
        """The folder of the run folders."""
        return Path(self.wanted.runs)

    @property
    def at_once(self) -> int:
        """The number of runs at a time."""
        return self.wanted.jobs or room(self.wanted.threads)

    @property
    def noun(self) -> str:
        """The name of what its rows and points are of."""
        return "encoders" if any(run.members for run in self.planned) else "runs"

    def state(self, run: Run) -> State:
        """Returns how far a run is."""
        folder = self.runs / run.name
        state = planned_runs.state(folder)
        if state != "finished" or not run.evaluated or self.senteval is None:
            return state
        out = results_folder(folder, self.senteval.protocol, run.pooling)
        return state if self.senteval.complete(out) else "not evaluated"

    def seconds(self, run: Run, state: State = "missing") -> float:
        """Estimates the seconds that a run takes here from its ``state`` on."""
        if state in ("finished", "not evaluated"):
            return self.grid.evaluation * (state == "not evaluated")
        return planning.core_seconds([run], self.grid, speed(self.wanted.threads))


def reproduce(wanted: Reproduction, passed: Sequence[str]) -> int:
    """Makes the figure or table that is asked for; returns the exit status, 1 where something is missing.

    Raises:
        UserError: for what the user can correct.
        KeyboardInterrupt: if it was interrupted, after all runs have stopped; the same command continues.
    """
    display = Display()
    if wanted.list:
        _print(_listing())
        for name in catalogue.names():
            for line in catalogue.EXHIBITS[name].departures:
                display.say(f"{name}: {line}", style="dim")
        return 0
    exhibit = catalogue.find(str(wanted.figure))
    _require(exhibit, wanted)
    senteval = _senteval(exhibit, wanted, passed)
    apart = exhibit.on_senteval and senteval is None  # joined encoders have no quick evaluation
    work = Work(
        exhibit, wanted, passed, planning.plan(exhibit, wanted, passed, joined=not apart), senteval, display
    )
    _announce(work)
    if wanted.dry_run:
        if work.planned:
            _print(_table(work))
        return 0
    return _show(work, _train_and_evaluate(work))


def _require(exhibit: Exhibit, wanted: Reproduction) -> None:
    """Refuses data and files that the figure or table does not take, or lacks, before anything is trained."""
    if wanted.data == TREEBANK and TREEBANK not in exhibit.needs:
        raise UserError(f"data={TREEBANK}: {exhibit.id} is not of trees; data=<folder> names its data.")
    for key in planning.not_taken(exhibit, wanted):
        more = " (GenSen's rows take objective.nli=)" if key == "nli" else ""
        raise UserError(f"{key}: {exhibit.id} has no row that takes it{more}.")
    if not exhibit.needs or wanted.dry_run:
        return
    if wanted.data is None:
        raise UserError(f"data is not set: {exhibit.id} needs {exhibit.needs}.")
    if isinstance(exhibit, Figure):
        labelled_maps.require(Path(wanted.data), exhibit.classes)


def _senteval(exhibit: Exhibit, wanted: Reproduction, passed: Sequence[str]) -> Evaluation | None:
    """The evaluation on SentEval, where the figure has one and the data is there.

    Raises:
        UserError: if the data has no file of the tasks.
    """
    if not exhibit.on_senteval:
        return None
    tasks = wanted.tasks if wanted.tasks is not None or wanted.budget == "paper" else exhibit.tasks
    folder = planned_runs.senteval_folder(wanted.data, tasks, wanted.probing, ("data", "probing"))
    if folder is None:
        return None
    protocol, at_once = wanted.protocol or exhibit.protocol, wanted.jobs or room(wanted.threads)
    return Evaluation(folder, protocol, tasks, wanted.probing, wanted.threads, at_once, passed)


def _print(table: RichTable) -> None:
    wide_console(table).print(table)


def _listing() -> RichTable:
    """Returns all that can be reproduced as a table: runs, and what they cost here, at both sizes."""
    table = RichTable(title="What can be reproduced (figure=<name>)", title_justify="left", header_style="bold")
    for name in ("name", "what", "runs, teaching", "time here", "runs, paper", "time here"):
        numbers = name.startswith(("runs", "time"))
        table.add_column(name, justify="right" if numbers else "left", no_wrap=name == "name")
    for name in catalogue.names():
        exhibit = catalogue.EXHIBITS[name]
        cells = []
        for size in get_args(Size):
            grid = exhibit.grids.get(size)
            if grid is None:
                cells += ["–", ""]
                continue
            runs, seconds = planning.cost(exhibit, Reproduction(figure=name, budget=size), speed(1))
            trained = any(value.share for values in planning.combinations(exhibit, grid) for value in values)
            cells += [str(runs), "?" if trained and not grid.flops else duration(seconds / room(1))]
        table.add_row(name, escape(exhibit.title), *cells)
    return table


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
    there: list[planned_runs.State] = [
        "finished" if state == "not evaluated" else state for state in trained.values()
    ]
    display.fact("runs", planned_runs.count_states(there, work.runs, work.at_once))
    if joined := len({run.name for run in work.planned if run.members}):
        display.fact("joined", f"{joined} of two or more of these, side by side")
    if planning.timed(work.grid, work.passed):
        each = [work.seconds(run, state) for run, state in states.items()]
        left = duration(max(sum(each) / work.at_once, *each))
        own = "" if work.wanted.tasks is None else " (assuming the figure's own tasks for the evaluation)"
        display.fact("time", f"about {left} here, for what is not finished{own}")
    else:
        display.fact("time", "not estimated, as a key of budget sets another length")
    if work.senteval is not None:
        tasks = ", ".join(work.senteval.tasks) if work.senteval.tasks else "all whose files are there"
        display.fact("scores", f"SentEval in {work.senteval.data}, protocol {work.senteval.protocol}: {tasks}")
    elif exhibit.on_senteval:
        display.fact("scores", "quick evaluation on held-out text; data=<SentEval folder> evaluates on SentEval")
    elif isinstance(exhibit, Figure):
        display.fact("scores", f"share of sentences of {work.wanted.data} with their neighbours' label in a map")
    for line in planning.left_out(exhibit, work.wanted):
        display.warn(f"left out    {line}")


def _table(work: Work) -> RichTable:
    """Returns the runs as a table: their labels, how long each takes here, and how far it is."""
    table = RichTable(header_style="bold", title_justify="left")
    varied = [axis for axis in work.grid.axes if len({run.labels[axis] for run in work.planned}) > 1]
    for name in (*varied, "seed"):
        table.add_column(name)
    table.add_column("time here", justify="right")
    table.add_column("state")
    table.add_column("run", no_wrap=True)
    known = planning.timed(work.grid, work.passed)
    for run in work.planned:
        state = work.state(run)
        seconds = work.seconds(run) if known else 0.0
        table.add_row(
            *(escape(run.labels[axis]) for axis in varied),
            str(run.seed),
            duration(seconds) if seconds else "?",
            f"[{STYLES[state]}]{state}[/{STYLES[state]}]",
            escape(run.name),
        )
    return table


def _train_and_evaluate(work: Work) -> dict[str, str]:
    """Completes all runs; returns why jobs failed, by their names."""
    if not work.planned:
        return {}
    jobs = dict[str, Job]()
    for run in work.planned:
        folder, seconds = work.runs / run.name, planning.core_seconds([run], work.grid)
        evaluation = None
        if run.evaluated and work.senteval is not None:
            evaluation = work.senteval.job(folder, run.pooling, work.grid.evaluation)
            seconds -= evaluation.weight
        # A run that is evaluated with several poolings is trained once.
        jobs.setdefault(run.name, planned_runs.job(folder, partial(_training, work, run), seconds, run.members))
        if evaluation is not None:
            jobs[evaluation.name] = evaluation
    failed = planned_runs.train_and_evaluate(
        [*jobs.values()], at_once=work.at_once, threads=work.wanted.threads, display=work.display
    )
    for name, line in failed.items():
        work.display.say(f"failed      {name}: {line}", style="red")
    trained = dict.fromkeys(work.runs / run.name for run in work.planned if not run.members)
    for line in planned_runs.differences([*trained]):
        work.display.warn(line)
    return failed


def _training(work: Work, run: Run) -> list[str] | None:
    """The command that trains a run; None where it is finished, or joins others, which is done at once."""
    folder = work.runs / run.name
    if run.members:
        joining.join(folder, [work.runs / name for name in run.members])
        return None
    return planned_runs.training(folder, run.overrides, work.passed)


def _show(work: Work, failed: Mapping[str, str]) -> int:
    """Draws or tabulates what there is; returns 1 where something is missing."""
    exhibit, display = work.exhibit, work.display
    found = results.collect(work.planned, work.runs, None if work.senteval is None else work.senteval.protocol)
    if exhibit.ensemble is not None and work.senteval is not None:
        found.ensembles = _ensembles(work, work.senteval, exhibit.ensemble, found)
    missing = dict.fromkeys(run.name for run in work.planned if run.evaluated and run not in found.facts)
    notes = _notes(work, found, len(missing))
    paths = _draw(work, exhibit, found, notes) if isinstance(exhibit, Figure) else _tabulate(work, found, notes)
    for path in paths:
        display.fact(path.suffix.lstrip("."), str(path))
    for name in missing:
        display.say(f"missing     {name}: {failed.get(name, 'not finished')}", style="red")
    return 1 if missing or failed else 0


def _notes(work: Work, found: Found, missing: int) -> list[str]:
    """Facts that a reader must know about the runs behind a picture or table; ``missing`` of them are."""
    exhibit, wanted = work.exhibit, work.wanted
    shown, lacking = [*found.facts], 0
    if work.senteval is not None:
        shown, lacking = results.scored(found, work.senteval.tasks)
    teaching = "teaching sizes" + ", not the paper's" * exhibit.of_paper
    size = "the paper's sizes" if wanted.budget == "paper" else teaching
    notes = [results.sizes(found, size, shown) + "."] if work.planned else []
    if wanted.only:
        parts = ", ".join(f"only.{axis}={labels}" for axis, labels in wanted.only.items())
        notes.append(f"A part of it: {parts}.")
    every = len({run.name for run in work.planned if run.evaluated})
    if missing:
        notes.append(f"{missing} of {every} {work.noun} are missing.")
    if lacking:
        notes.append(f"{lacking} of {every} {work.noun} are finished but not evaluated on all tasks.")
    joins = exhibit.grids and any(value.joins for values in work.grid.axes.values() for value in values)
    if joins and exhibit.on_senteval and work.senteval is None:
        notes.append("Joined encoders are evaluated on SentEval only (data=<folder>): here each one is a row.")
    notes += [f"Left out: {line}." for line in planning.left_out(exhibit, wanted)]
    return notes + ["Not as in the paper: " * exhibit.of_paper + line for line in exhibit.departures]


def _draw(work: Work, figure: Figure, found: Found, notes: list[str]) -> list[Path]:
    """Draws the figure; returns the paths of its files."""
    out = Path(work.wanted.out)
    if not work.planned:
        return reproduction.draw(figure, [], out, " ".join(["No run is trained for it.", *notes]))
    if figure.needs:
        return reproduction.draw(figure, [], out, " ".join(notes), _maps(work, figure))
    if not (found.quick if work.senteval is None else found.senteval):
        raise UserError("No run is finished and evaluated: there is nothing to draw.")
    scored = results.by_quick if work.senteval is None else results.by_senteval
    shown, points, more, by = scored(figure, found)
    return reproduction.draw(shown, points, out, " ".join([*notes, *more]), by=by)


def _maps(work: Work, figure: Figure) -> list[labelled_maps.LabelledMap]:
    """A map of each set of labelled sentences in data=, by each finished run.

    Raises:
        UserError: if no run is finished, or the data cannot be read.
    """
    finished = [run for run in work.planned if run.evaluated and (work.runs / run.name / "encoder").is_dir()]
    if not finished:
        raise UserError("There is nothing to draw: no run is finished.")
    sets = dict(labelled_maps.labelled_sets(Path(str(work.wanted.data)), figure.classes))
    maps = []
    for run in finished:
        model = Model(run.name, Named(str(work.runs / run.name)).open())
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
        raise UserError(f"None of the {work.noun} is there: there is nothing to tabulate.")
    if table.evaluation:
        models = {f"{tables.row_of(run, found)}, seed {run.seed}": work.runs / run.name for run in found.facts}
        text = tables.evaluation_text(table, models, str(work.wanted.data))
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


def _ensembles(work: Work, senteval: Evaluation, wanted: Ensemble, found: Found) -> dict[int, Results]:
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
            folder = results_folder(work.runs / run.name, senteval.protocol, run.pooling)
            groups.setdefault(run.labels[wanted.axis], []).append(folder)
        # Runs are shared with other figures, which may have evaluated them on other tasks.
        tasks = [name for name in senteval.tasks or TASKS if all(name in one.tasks for one in members.values())]
        if len(groups) < len(wanted.members) or not tasks:
            continue  # a member is missing: it would be another ensemble
        out = Path(work.wanted.out) / f"{work.exhibit.name}-ensemble-{seed}"
        try:
            best = [rank(folders, (), tasks).groups["all"][0].folder for folders in groups.values()]
            if out.is_symlink():
                raise UserError(f"{out} is a link: remove it.")
            if (out / FILE).exists():
                shutil.rmtree(out)  # of an earlier call, whose members may have been others
            out.mkdir(parents=True, exist_ok=True)
            result[seed] = ensemble(best, out, tasks)
        except UserError as error:
            work.display.warn(f"left out    {wanted.group}, seed {seed}: {error}")
    return result


def room(threads: int) -> int:
    """Returns how many runs go at the same time: one on a GPU, else one for each ``threads`` cores."""
    if torch.cuda.is_available():
        return 1
    return max(1, cores() // threads)


@cache
def speed(threads: int) -> float:
    """Measures the floating-point operations per second of one run here; used for shown estimates only."""
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return budget.flops_per_second(place, torch.float32) * budget.EFFICIENCY
    finally:
        torch.set_num_threads(before)
