"""What can be reproduced and what it costs, and the runs of one figure, as tables for the terminal."""

from __future__ import annotations

from typing import get_args

from rich.markup import escape
from rich.table import Table

from experiments import budget
from experiments.reproduction import planning
from experiments.reproduction.settings import Reproduction, Size
from experiments.reproduction.specification import names, read
from experiments.reproduction.work import Work, room, speed


def catalogue() -> Table:
    """All that can be reproduced: runs, and what they cost here, at both sizes."""
    operations = speed(1)
    table = Table(title="What can be reproduced (figure=<name>)", title_justify="left", header_style="bold")
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
            runs, seconds = planning.cost(specification, Reproduction(figure=name, budget=size), operations)
            combinations = planning.combinations(specification, grid)
            unknown = not grid.flops and any(value.share for values in combinations for value in values)
            cells += [str(runs), "?" if unknown else budget.about(seconds / room(1))]
        table.add_row(name, escape(specification.title), *cells)
    return table


def table_of_runs(work: Work) -> Table:
    """The runs of a figure: where they stand in it, how long each takes here, and how far it is."""
    grid = planning.grid_of(work.specification, work.wanted)
    operations = speed(work.wanted.threads)
    table = Table(header_style="bold", title_justify="left")
    varied = [axis for axis in grid.axes if len({run.labels[axis] for run in work.planned}) > 1]
    for name in (*varied, "seed"):
        table.add_column(name)
    table.add_column("here", justify="right")
    table.add_column("state")
    table.add_column("run", no_wrap=True)
    styles = {"finished": "green", "not judged": "yellow", "begun": "yellow", "broken": "red", "missing": "dim"}
    for run in work.planned:
        state = work.state(run)
        seconds = planning.core_seconds([run], grid, operations) if planning.timed(grid, work.passed) else 0.0
        table.add_row(
            *(escape(run.labels[axis]) for axis in varied),
            str(run.seed),
            budget.about(seconds) if seconds else "?",
            f"[{styles[state]}]{state}[/{styles[state]}]",
            escape(run.name),
        )
    return table
