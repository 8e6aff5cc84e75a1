"""Tables as text, CSV, Markdown and LaTeX, printed or written into a file."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Literal

import pandas as pd

from data.display import csv_cell, printable
from data.files import atomic_write

Format = Literal["text", "csv", "markdown", "latex"]


def render(
    frame: pd.DataFrame,
    format: Format = "text",
    *,
    title: str = "",
    notes: Sequence[str] = (),
    decimals: int = 2,
) -> str:
    """Renders a frame as a table, without a final line break.

    Named levels of the index are the first columns, aligned left; an index without names is left out. Levels of
    the columns are joined: ("MRPC", "f1") is "MRPC f1", or "MRPC.f1" in CSV. Text wraps at the terminal's width.

    Args:
        frame: numbers and text; NaN and None are missing.
        format: "text", "csv", "markdown" or "latex" (for the package booktabs).
        title: above the table; a comment in LaTeX, not in CSV.
        notes: a line each below the table; comments in LaTeX, not in CSV.
        decimals: of floats.
    """
    levels = [name for name in frame.index.names if name is not None]
    plain, separator, missing = (csv_cell, ".", "") if format == "csv" else (printable, " ", "–")

    def cell(value: Any) -> Any:
        if pd.isna(value):
            return missing
        return f"{value:.{decimals}f}" if isinstance(value, float) else plain(str(value))

    table = (frame.reset_index() if levels else frame).map(cell)
    keys = [key if isinstance(key, tuple) else (key,) for key in table.columns]
    table.columns = [plain(separator.join(filter(None, map(str, key)))) for key in keys]
    title, notes = printable(title), [*map(printable, notes)]
    if format == "csv":
        return table.to_csv(index=False, lineterminator="\n").rstrip("\n")
    if format == "latex":
        sides = "l" * len(levels) + "r" * (len(table.columns) - len(levels))
        text = table.to_latex(index=False, escape=True, column_format=sides)
        return "\n".join([f"% {title}", text.rstrip(), *map("% {}".format, notes)])
    if format == "markdown":
        rule = [":--"] * len(levels) + ["--:"] * (len(table.columns) - len(levels))
        rows = [map(_escape, table.columns), rule, *(map(_escape, row) for row in table.values)]
        lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        heading = f"**{_escape(title)}**" if title else ""
        return "\n\n".join(filter(None, [heading, lines, *map(_escape, notes)]))
    if levels:
        table = table.set_index([*table.columns[: len(levels)]])
    width = get_terminal_size((120, 24)).columns
    text = table.to_string(index=bool(levels), sparsify=False, line_width=width)
    return "\n".join(filter(None, [title, text, *notes]))


def show(frame: pd.DataFrame, format: Format = "text", out: str | None = None, **options: Any) -> None:
    """Prints a table, or writes it into a file; the notes of CSV go to the error stream.

    Args:
        frame, format: see ``render``.
        out: path of the file; None to print.
        options: further arguments of ``render``.

    Raises:
        OSError: if the file cannot be written.
    """
    text = render(frame, format, **options)
    if out is None:
        print(text)
    else:
        path = Path(out).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(f"{text}\n")
    if format == "csv":
        sys.stderr.writelines(f"{printable(note)}\n" for note in options.get("notes", ()))


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
