"""Output of evaluations: score tables as terminal text, CSV, Markdown and LaTeX, and results as JSON."""

from __future__ import annotations

import csv
import io
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis.reporting.printed import Cell, Key
from analysis.senteval.averages import average_title
from analysis.senteval.scores import metric_name
from analysis.senteval.tasks import TASKS
from data.display import csv_cell, printable
from data.errors import UserError, reason
from data.files import write_json

Form = Literal["text", "md", "csv"]
_HEADING = 16  # characters of a line of a heading, unless a word is longer


@dataclass(frozen=True)
class Row:
    """A model's cells; ``source`` is "ours", the paper that prints them or a note; means have ``deviations``.

    ``count`` is the number of results averaged.
    """

    name: str
    cells: dict[Key, Cell]
    source: str = "ours"
    protocol: str = ""
    deviations: dict[Key, float] = field(default_factory=dict)
    count: int = 1

    @property
    def label(self) -> str:
        return printable(self.name if self.source == "ours" else f"{self.source}: {self.name}")


@dataclass(frozen=True)
class Grid:
    """A table: columns, own rows, the papers' rows, notes, and the quantity after ± ("sd" or "ci95")."""

    title: str
    columns: list[Key]
    ours: list[Row]
    printed: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spread: str = "sd"

    def is_best(self, row: Row, key: Key) -> bool:
        """Returns True if ``row`` is an own row with the highest score of a column, tied or not.

        Only own rows of the same protocol are compared, at least two, by scores rounded to two decimals.
        """
        if row.source != "ours" or key not in row.cells:
            return False
        beside = [one for one in self.ours if one.protocol == row.protocol and key in one.cells]
        shown = [round(one.cells[key].value, 2) for one in beside]
        return len(shown) > 1 and round(row.cells[key].value, 2) == max(shown)


def score_cell(value: float, deviation: float | None = None) -> Cell:
    """Formats a score computed here: "80.00", or with its standard deviation "80.00 ± 0.31"."""
    return Cell(value, f"{value:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}"))


def heading(key: Key) -> str:
    """Returns a column's name: "MRPC F1", "SICK-R Spearman", "mean of 9 of the 10 probing tasks"."""
    task, metric = key
    if not task:
        return printable(average_title(metric))
    return f"{TASKS[task].short or task} {metric_name(metric)}".strip()


def as_csv(grid: Grid) -> str:
    """Renders CSV with SentEval's names ("MRPC.f1"), numbers as shown, empty cells if missing, and no notes.

    A column of means is followed by one of their spreads ("MRPC.f1.sd").
    """
    rows = grid.ours + grid.printed
    names: list[str] = []
    columns: list[list[str]] = []
    for key in grid.columns:
        task, metric = key
        names.append(metric if not task else task if metric == "test" else f"{task}.{metric}")
        columns.append([row.cells[key].text.split(" ±")[0] if key in row.cells else "" for row in rows])
        if any(key in row.deviations for row in rows):
            names.append(f"{names[-1]}.{grid.spread}")
            columns.append([f"{row.deviations[key]:.2f}" if key in row.deviations else "" for row in rows])
    lines = [["model", "source", "protocol", *names]]
    for place, row in enumerate(rows):
        lines.append([row.name, row.source, row.protocol, *(column[place] for column in columns)])
    return csv_table(lines)


def as_markdown(grid: Grid) -> str:
    """Renders a pipe table with own best scores in bold and notes below."""

    def cell(row: Row, key: Key) -> str:
        text = row.cells[key].text if key in row.cells else "–"
        return f"**{text}**" if grid.is_best(row, key) else text

    headings = [escape_markdown(heading(key)) for key in grid.columns]
    rows = [
        [escape_markdown(row.label), *(cell(row, key) for key in grid.columns)] for row in grid.ours + grid.printed
    ]
    table = markdown_table(["model", *headings], rows, "l" + "r" * len(headings))
    return "\n\n".join([table, *map(escape_markdown, grid.notes)])


def as_latex(grid: Grid) -> str:
    """Renders a tabular for the package booktabs with own best scores in bold and notes below."""

    def line(row: Row) -> str:
        cells = []
        for key in grid.columns:
            text = _escape_latex(row.cells[key].text) if key in row.cells else "--"
            cells.append(rf"\textbf{{{text}}}" if grid.is_best(row, key) else text)
        return " & ".join([_escape_latex(row.label), *cells]) + r" \\"

    lines = [rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}", r"\toprule"]
    lines += [" & ".join(["model", *(_escape_latex(heading(key)) for key in grid.columns)]) + r" \\"]
    for block in _blocks(grid):
        lines += [r"\midrule", *map(line, block)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if grid.notes:
        notes = [_escape_latex(note) for note in grid.notes]
        lines += [r"\par\smallskip", r"{\footnotesize " + r" \\ ".join(notes) + r" \par}"]
    return "\n".join(lines)


def as_text(grid: Grid, width: int = 120) -> str:
    """Renders the terminal's table without colours, at most ``width`` characters wide if columns allow."""
    file = io.StringIO()
    Console(file=file, width=width).print(rich_table(grid, width))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))


def rich_table(grid: Grid, width: int) -> RenderableType:
    """Builds stacked tables, each with as many columns as fit ``width`` characters; own best scores in bold."""
    names = max(len(row.label) for row in grid.ours + grid.printed)
    parts: list[RenderableType] = []
    for columns in _fitting(grid, width - names - 4):
        title = None if parts else escape(grid.title)
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        table.add_column("model", no_wrap=True)
        for key in columns:
            table.add_column(escape("\n".join(_lines(key))), justify="right", vertical="bottom")
        for block in _blocks(grid):
            for row in block:
                if row.source != "ours" and not any(key in row.cells for key in columns):
                    continue  # a paper prints none of these columns
                cells = [row.cells[key].text if key in row.cells else "–" for key in columns]
                styles = ["bold" if grid.is_best(row, key) else "" for key in columns]
                texts = [Text(text, style) for text, style in zip(cells, styles, strict=True)]
                table.add_row(Text(row.label), *texts, style="" if row.source == "ours" else "dim")
            table.add_section()
        parts.append(table)
    return Group(*parts, *(Text(printable(note), style="dim") for note in grid.notes))


def _blocks(grid: Grid) -> list[list[Row]]:
    """Returns the own rows, then those of each paper."""
    sources = dict.fromkeys(row.source for row in grid.printed)
    return [grid.ours, *([row for row in grid.printed if row.source == source] for source in sources)]


def _fitting(grid: Grid, width: int) -> Iterable[Sequence[Key]]:
    """Yields groups of columns that fit ``width`` characters, counting text, padding and a line for each."""
    group: list[Key] = []
    used = 0
    for key in grid.columns:
        cells = (len(row.cells[key].text) for row in grid.ours + grid.printed if key in row.cells)
        need = max(5, *map(len, _lines(key)), *cells) + 3
        if group and used + need > width:
            yield group
            group, used = [], 0
        group.append(key)
        used += need
    yield group


def _lines(key: Key) -> list[str]:
    """Returns a column's heading in short lines."""
    return textwrap.wrap(heading(key), _HEADING, break_long_words=False, break_on_hyphens=False)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> Table:
    """Builds a terminal table of plain text; ``sides`` gives each column's alignment, "l" or "r"."""
    table = Table(header_style="bold")
    for column, side in zip(columns, sides, strict=True):
        table.add_column(column, justify="left" if side == "l" else "right")
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    return table


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    """Renders a pipe table of cells that are Markdown already; ``sides`` as in ``text_table``."""
    rules = [":--" if side == "l" else "--:" for side in sides]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rules, *rows))


def csv_table(lines: Iterable[Sequence[object]]) -> str:
    """Renders CSV without a final line break; no cell is a formula (``csv_cell``)."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(map(csv_cell, line) for line in lines)
    return file.getvalue().rstrip("\n")


def escape_markdown(text: str) -> str:
    """Escapes ``text`` for Markdown, in one line."""
    return "".join(f"\\{sign}" if sign in "\\`*_|<>[]" else sign for sign in printable(text))


_LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "±": r"$\pm$",
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in printable(text))


FORMATS: dict[str, Callable[[Grid], str]] = {"text": as_text, "md": as_markdown, "csv": as_csv, "latex": as_latex}


def show(grid: Grid, form: str) -> None:
    """Prints a table; with CSV, which has no place for notes, these go to the error stream."""
    console = Console()
    if form == "text" and console.is_terminal:
        console.print(rich_table(grid, console.width))
        return
    print(FORMATS[form](grid))
    if form == "csv":
        print("\n".join(map(printable, grid.notes)), file=sys.stderr)


def write_result(out: str | None, result: Any) -> None:
    """Writes ``result`` to ``out`` as JSON, atomically; does nothing if ``out`` is None.

    Raises:
        UserError: if it cannot be written.
    """
    if out is None:
        return
    path = Path(out).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, result)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({reason(error)}): out=<file> names another.") from error
