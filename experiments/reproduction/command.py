"""What ``reproduce.py`` does: lists, plans, trains several runs at a time, judges them, draws or tabulates."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import get_args

import torch
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
from data.tokenising import cores
from experiments import budget, compose, side_by_side
from experiments.children import Failure, Job
from experiments.judging import DOWNLOADED
from experiments.progress import Display
from experiments.reproduction import judged, maps, planning, tables
from experiments.reproduction.judged import Judged
from experiments.reproduction.planning import Run
from experiments.reproduction.settings import Reproduction, Size
from experiments.reproduction.specification import Specification, find, names, read
from experiments.run_folder import ROOT
from experiments.side_by_side import results_folder


@dataclass(frozen=True)
class Work:
    """A figure and how it is made here.

    Attributes:
        senteval: SentEval's folder, None where scores are of the quick judgement.
        at_once: runs at a time.
        passed: overrides of the runs.
    """

    specification: Specification
    wanted: Reproduction
    passed: Sequence[str]
    planned: Sequence[Run]
    senteval: Path | None
    at_once: int
    display: Display

    @property
    def runs(self) -> Path:
        return Path(self.wanted.runs)

    @property
    def folders(self) -> list[Path]:
        """Of the runs, each once: several rows may be of one run, judged by several poolings."""
        return list(dict.fromkeys(self.runs / run.name for run in self.planned))

    @property
    def protocol(self) -> str | None:
        if self.senteval is None:
            return None
        return self.wanted.protocol or self.specification.scores.protocol

    @property
    def tasks(self) -> tuple[str, ...] | None:
        return _tasks(self.specification, self.wanted)


def reproduce(wanted: Reproduction, passed: Sequence[str]) -> int:
    """Does what is asked for; returns the exit status, 1 where something is missing in the end.

    Raises:
        UserError: for what the user can mend.
        KeyboardInterrupt: if it was interrupted, after all runs have stopped; the same command goes on.
    """
    display = Display()
    if wanted.list:
        _print(catalogue())
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
    planned = planning.plan(specification, wanted, passed)
    at_once = wanted.jobs or room(wanted.threads)
    work = Work(specification, wanted, passed, planned, _senteval(specification, wanted), at_once, display)
    _tell(work)
    if wanted.dry_run:
        if planned:
            _print(table_of_runs(work))
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


def room(threads: int) -> int:
    """How many runs go at the same time: one on a GPU, else one for each ``threads`` cores."""
    if torch.cuda.is_available():
        return 1
    return max(1, cores() // threads)


def catalogue() -> RichTable:
    """All that can be reproduced: runs, and what they cost here, at both sizes."""
    speed = _speed(1)
    table = RichTable(title="What can be reproduced (figure=<name>)", title_justify="left", header_style="bold")
    for name in ("name", "what", "runs, teaching", "here", "runs, paper", "here"):
        numbers = name.startswith(("runs", "here"))
        table.add_column(name, justify="right" if numbers else "left", no_wrap=name == "name")
    for name in names():
        specification = read(name)
        cells = []
        for size in get_args(Size):
            grid = specification.grids.get(size)
            if grid is None:
                cells += ["–", ""]
                continue
            runs, seconds = planning.cost(specification, Reproduction(figure=name, budget=size), speed)
            combinations = planning.combinations(specification, grid)
            unknown = not grid.flops and any(value.share for values in combinations for value in values)
            cells += [str(runs), "?" if unknown else budget.about(seconds / room(1))]
        table.add_row(name, specification.title, *cells)
    return table


def table_of_runs(work: Work) -> RichTable:
    """The runs of a figure: where they stand in it, how long each takes here, and how far it is."""
    grid = planning.grid_of(work.specification, work.wanted)
    speed = _speed(work.wanted.threads)
    table = RichTable(header_style="bold", title_justify="left")
    varied = [axis for axis in grid.axes if len({run.labels[axis] for run in work.planned}) > 1]
    for name in (*varied, "seed"):
        table.add_column(name)
    table.add_column("here", justify="right")
    table.add_column("state")
    table.add_column("run", no_wrap=True)
    styles = {"finished": "green", "begun": "yellow", "broken": "red", "missing": "dim"}
    for run in work.planned:
        state = side_by_side.state(work.runs / run.name)
        seconds = run.flops / speed + grid.judged if planning.timed(grid, work.passed) else 0.0
        table.add_row(
            *(run.labels[axis] for axis in varied),
            str(run.seed),
            budget.about(seconds) if seconds else "?",
            f"[{styles[state]}]{state}[/{styles[state]}]",
            run.name,
        )
    return table


def _tell(work: Work) -> None:
    """What is going to be done, in a few lines."""
    display, specification = work.display, work.specification
    display.fact("figure" if specification.figure else "table", f"{specification.id}: {specification.title}")
    for line in specification.cannot:
        display.warn(f"not here     {line}")
    if not work.planned:
        display.fact("runs", "none is needed")
        return
    states = {folder.name: side_by_side.state(folder) for folder in work.folders}
    grid = planning.grid_of(specification, work.wanted)
    left = [run for run in work.planned if states[run.name] != "finished"]
    speed = _speed(work.wanted.threads)
    each = [planning.core_seconds([run], grid, speed) for run in left]
    seconds = max(sum(each) / work.at_once, *each, 0.0)
    time_left = f"about {budget.about(seconds)}" if planning.timed(grid, work.passed) else "unknown"
    display.fact("runs", side_by_side.how_far([*states.values()], work.runs, work.at_once))
    own = "" if work.wanted.tasks is None else " (judging as long as on the figure's own tasks)"
    display.fact("time", f"{time_left} here, for what is not finished{own}")
    if specification.figure is not None and specification.figure.kind == "map":
        display.fact(
            "scores", f"sentences of {work.wanted.data} whose nearest neighbours in a map have their label"
        )
    elif specification.table is None or specification.table.kind == "senteval":
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
    if specification.table is not None and specification.table.kind != "senteval":
        return None
    if specification.figure is not None and specification.figure.kind in ("map", "density"):
        return None
    folder = ROOT / DOWNLOADED if wanted.data is None else Path(wanted.data)
    if wanted.data is None and not folder.is_dir():
        return None
    available(_tasks(specification, wanted), folder, Path(wanted.probing) if wanted.probing else None)
    return folder


def _tasks(specification: Specification, wanted: Reproduction) -> tuple[str, ...] | None:
    """SentEval's tasks that are asked for; None: all."""
    if wanted.tasks is not None or wanted.budget == "paper":
        return wanted.tasks
    return specification.scores.tasks


@cache
def _speed(threads: int) -> float:
    """Floating-point operations a second of one run here, for estimates that are shown; it never decides."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return budget.flops_per_second(device, torch.float32) * budget.EFFICIENCY
    finally:
        torch.set_num_threads(before)


def _train_and_judge(work: Work) -> dict[str, Failure]:
    """Brings all runs to their end; what failed, by the run's name."""
    if not work.planned:
        return {}
    grid = planning.grid_of(work.specification, work.wanted)
    jobs = []
    for folder in work.folders:
        alike = [run for run in work.planned if run.name == folder.name]
        training = partial(side_by_side.training, folder, alike[0].overrides, work.passed, work.wanted.threads)
        commands = [training, *(partial(_evaluation, work, run) for run in alike)]
        weight = planning.core_seconds(alike, grid)
        jobs.append(Job(folder.name, commands, side_by_side.log_of(folder), weight))
    failed = side_by_side.bring_to_end(
        jobs, at_once=work.at_once, threads=work.wanted.threads, display=work.display
    )
    for name, failure in failed.items():
        work.display.say(f"failed      {name}: {failure.line}", style="red")
    for line in side_by_side.differences(work.folders):
        work.display.warn(line)
    return failed


def _evaluation(work: Work, run: Run) -> list[str] | None:
    """The command that judges a run on SentEval; None where all is judged, or SentEval is not asked."""
    if work.senteval is None or work.protocol is None:
        return None
    return side_by_side.evaluation(
        work.runs / run.name,
        data=work.senteval,
        protocol=work.protocol,
        passed=work.passed,
        threads=work.wanted.threads,
        tasks=work.tasks,
        probing=work.wanted.probing,
        pooling=run.pooling,
    )


def _show(work: Work, failed: dict[str, Failure]) -> int:
    """Draws or tabulates what there is; 1 where something is missing."""
    specification, display = work.specification, work.display
    found = judged.collect(work.planned, work.runs, work.protocol)
    missing = list(dict.fromkeys(run.name for run in work.planned if run not in found.facts))
    shown, lacking = [*found.facts], 0
    if work.senteval is not None:
        shown, lacking = judged.scored(found, work.tasks)
    notes = [judged.sizes(found, work.wanted.budget, shown) + "."] if work.planned else []
    if wanted := work.wanted.only:
        notes.append(f"A part of it: {', '.join(f'only.{axis}={labels}' for axis, labels in wanted.items())}.")
    if work.planned and missing:
        notes.append(f"{len(missing)} of {len(work.folders)} runs are missing.")
    if lacking:
        notes.append(f"{lacking} of {len(work.folders)} runs are finished but not judged on all tasks.")
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
        raise UserError(f"None of the {len(work.planned)} runs is finished: there is nothing to tabulate.")
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
