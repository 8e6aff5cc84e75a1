"""Tables as text, CSV, Markdown and LaTeX, printed or written into a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any, Literal

import pandas as pd

from data.display import printable

Format = Literal["text", "csv", "markdown", "latex"]


def render(
    frame: pd.DataFrame, format: Format = "text", *, title: str = "", notes: Sequence[str] = (), decimals: int = 2
) -> str:
    """Renders a frame as a table, without a final line break.

    Named levels of the index are the first columns, aligned left; an index without names is left out. Text wraps
    at the terminal's width.

    Args:
        frame: numbers and text; NaN and None are missing.
        format: "text", "csv", "markdown" or "latex" (for the package booktabs).
        title: above the table; not in CSV and LaTeX.
        notes: a line each below the table; not in CSV and LaTeX.
        decimals: of floats.
    """
    levels = [name for name in frame.index.names if name is not None]
    missing = "" if format == "csv" else "–"

    def cell(value: Any) -> Any:
        if pd.isna(value):
            return missing
        return f"{value:.{decimals}f}" if isinstance(value, float) else printable(str(value))

    table = (frame.reset_index() if levels else frame).map(cell)
    table.columns = [printable(str(name)) for name in table.columns]
    sides = "l" * len(levels) + "r" * (len(table.columns) - len(levels))
    title, *notes = map(printable, (title, *notes))
    if format == "csv":
        return table.to_csv(index=False, lineterminator="\n").rstrip()
    if format == "latex":
        return table.to_latex(index=False, escape=True, column_format=sides).rstrip()
    if format == "markdown":
        rule = [":--" if side == "l" else "--:" for side in sides]
        rows = [map(_escape, table.columns), rule, *(map(_escape, row) for row in table.values)]
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return "\n\n".join(filter(None, [title and f"**{_escape(title)}**", body, *map(_escape, notes)]))
    if levels:
        table = table.set_index([*table.columns[: len(levels)]])
    width = get_terminal_size((120, 24)).columns
    body = table.to_string(index=bool(levels), sparsify=False, line_width=width)
    return "\n".join(filter(None, [title, body, *notes]))


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
