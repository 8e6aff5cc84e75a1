"""A figure or table and how it is made here: its runs, their folders and states, and listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import torch
from rich.markup import escape
from rich.table import Table as RichTable

from analysis.figures import catalogue
from analysis.figures.exhibits import Exhibit, Figure, Grid, Table
from data.display import duration
from data.tokenising import cores
from experiments import budget, side_by_side
from experiments.progress import Display
from experiments.reproduction import planning
from experiments.reproduction.planning import Run
from experiments.reproduction.settings import Reproduction, Size

State = side_by_side.State | Literal["not evaluated"]
STYLES = {"finished": "green", "not evaluated": "yellow", "begun": "yellow", "broken": "red", "missing": "dim"}


@dataclass(frozen=True)
class Work:
    """A figure or table and how it is made here.

    Attributes:
        exhibit: the figure or table.
        wanted: what the command line asks for.
        passed: overrides of the runs.
        planned: the runs.
        senteval: SentEval's folder, None where scores are of the quick evaluation.
        at_once: runs at a time.
        display: shows progress.
    """

    exhibit: Exhibit
    wanted: Reproduction
    passed: Sequence[str]
    planned: Sequence[Run]
    senteval: Path | None
    at_once: int
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
    def folders(self) -> list[Path]:
        """The folders of trained runs, each once: several rows may be one run with several poolings."""
        return list(dict.fromkeys(self.runs / run.name for run in self.planned if not run.members))

    @property
    def protocol(self) -> str | None:
        """SentEval's protocol, None where it is not evaluated."""
        return None if self.senteval is None else self.wanted.protocol or self.exhibit.protocol

    @property
    def tasks(self) -> Sequence[str] | None:
        """SentEval's tasks, None for all."""
        return tasks_of(self.exhibit, self.wanted)

    @property
    def noun(self) -> str:
        """What its rows and points are of."""
        return "encoders" if any(run.members for run in self.planned) else "runs"

    def evaluation(self, run: Run) -> list[str] | None:
        """Returns the command that evaluates a run on SentEval; None where there is nothing to evaluate."""
        if self.senteval is None or self.protocol is None:
            return None
        return side_by_side.evaluation(
            self.runs / run.name,
            data=self.senteval,
            protocol=self.protocol,
            passed=self.passed,
            threads=self.wanted.threads,
            tasks=self.tasks,
            probing=self.wanted.probing,
            pooling=run.pooling,
        )

    def state(self, run: Run) -> State:
        """Returns how far a run is."""
        state = side_by_side.state(self.runs / run.name)
        lacking = state == "finished" and run.evaluated and self.evaluation(run) is not None
        return "not evaluated" if lacking else state

    def seconds(self, states: Mapping[Run, State]) -> float:
        """Estimates the seconds that all runs take here which are not finished."""
        operations = speed(self.wanted.threads)
        each = [
            self.grid.evaluation
            if state == "not evaluated"
            else planning.core_seconds([run], self.grid, operations)
            for run, state in states.items()
            if state != "finished"
        ]
        return max(sum(each) / self.at_once, *each, 0.0)

    def table(self) -> RichTable:
        """Returns the runs as a table: their labels, how long each takes here, and how far it is."""
        operations = speed(self.wanted.threads)
        table = RichTable(header_style="bold", title_justify="left")
        varied = [axis for axis in self.grid.axes if len({run.labels[axis] for run in self.planned}) > 1]
        for name in (*varied, "seed"):
            table.add_column(name)
        table.add_column("here", justify="right")
        table.add_column("state")
        table.add_column("run", no_wrap=True)
        known = planning.timed(self.grid, self.passed)
        for run in self.planned:
            state = self.state(run)
            seconds = planning.core_seconds([run], self.grid, operations) if known else 0.0
            table.add_row(
                *(escape(run.labels[axis]) for axis in varied),
                str(run.seed),
                duration(seconds) if seconds else "?",
                f"[{STYLES[state]}]{state}[/{STYLES[state]}]",
                escape(run.name),
            )
        return table


def listing() -> RichTable:
    """Returns all that can be reproduced as a table: runs, and what they cost here, at both sizes."""
    operations = speed(1)
    table = RichTable(title="What can be reproduced (figure=<name>)", title_justify="left", header_style="bold")
    for name in ("name", "what", "runs, teaching", "here", "runs, paper", "here"):
        numbers = name.startswith(("runs", "here"))
        table.add_column(name, justify="right" if numbers else "left", no_wrap=name == "name")
    for name in catalogue.names():
        exhibit = catalogue.EXHIBITS[name]
        cells = []
        for size in get_args(Size):
            grid = exhibit.grids.get(size)
            if grid is None:
                cells += ["–", ""]
                continue
            runs, seconds = planning.cost(exhibit, Reproduction(figure=name, budget=size), operations)
            trained = any(value.share for values in planning.combinations(exhibit, grid) for value in values)
            cells += [str(runs), "?" if trained and not grid.flops else duration(seconds / room(1))]
        table.add_row(name, escape(exhibit.title), *cells)
    return table


def on_senteval(exhibit: Exhibit) -> bool:
    """Returns whether it shows SentEval's scores, or those of the quick evaluation instead."""
    if isinstance(exhibit, Figure):
        return exhibit.kind not in ("map", "density")
    return isinstance(exhibit, Table) and bool(exhibit.grids) and not exhibit.command


def apart(exhibit: Exhibit, wanted: Reproduction, senteval: Path | None) -> bool:
    """Returns whether encoders to be joined are rows of their own: they have no quick evaluation together."""
    if senteval is not None or not on_senteval(exhibit) or not exhibit.grids:
        return False
    return any(value.joins for values in planning.grid_of(exhibit, wanted).axes.values() for value in values)


def tasks_of(exhibit: Exhibit, wanted: Reproduction) -> Sequence[str] | None:
    """Returns SentEval's tasks that are asked for; None: all."""
    if wanted.tasks is not None or wanted.budget == "paper":
        return wanted.tasks
    return exhibit.tasks


def room(threads: int) -> int:
    """Returns how many runs go at the same time: one on a GPU, else one for each ``threads`` cores."""
    if torch.cuda.is_available():
        return 1
    return max(1, cores() // threads)


@cache
def speed(threads: int) -> float:
    """Measures the floating-point operations per second of one run here; used for shown estimates only."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return budget.flops_per_second(device, torch.float32) * budget.EFFICIENCY
    finally:
        torch.set_num_threads(before)
