"""Prepares examples of objectives for the page: texts with their spans in colour, and the rows made from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from analysis.comparison.charts import Span, span_chart
from analysis.comparison.marking import BEYOND, Mark, Piece, Row, View

# Marks differ in form as well as in colour: see the style sheet.
MEANING: dict[Mark, str] = {
    "hidden": "masked, to be predicted (the original token below it)",
    "exchanged": "replaced by a random token, to be predicted",
    "predicted": "unchanged, but to be predicted",
    "deleted": "deleted",
    "added": "inserted",
    "replaced": "replaced",
    "moved": "moved here",
    "other": "from another text",
}
KINDS = 4  # colours of spans


@dataclass(frozen=True)
class TaskView:
    """Examples of one task of an objective; ``unit``: what they are sampled from ("document of corpus pydocs")."""

    name: str
    unit: str
    views: tuple[View, ...]


@dataclass(frozen=True)
class ObjectiveView:
    """Examples of what an objective does to text.

    Attributes:
        objective: its name.
        headline, equation: from the docstring of its module.
        encoder: whose tokens are shown.
        tasks: examples by task.
        problem: why there are none; "" if there are.
    """

    objective: str
    headline: str = ""
    equation: str = ""
    encoder: str = ""
    tasks: tuple[TaskView, ...] = ()
    problem: str = ""


def legend(views: Sequence[ObjectiveView]) -> list[tuple[Piece, str]]:
    """Returns a sample token and the meaning of each mark that occurs."""
    used = {
        piece.mark
        for objective in views
        for task in objective.tasks
        for view in task.views
        for row in view.rows
        for part in row.parts
        for piece in part.pieces
    }
    old = ("hidden", "exchanged", "replaced")
    return [
        (Piece(" token", mark, "old" if mark in old else ""), meaning)
        for mark, meaning in MEANING.items()
        if mark in used
    ]


def shown(view: View) -> dict[str, Any]:
    """Returns an example's texts (chart, tokens by colour), its rows (role, remark, pieces) and its labels."""
    kinds = {name: number % KINDS for number, name in enumerate(dict.fromkeys(_kind(row) for row in view.rows))}
    spans: dict[int, list[Span]] = {number: [] for number in view.originals}
    for row in view.rows:
        own = [] if row.same_as else _spans(row, view)
        for place, (number, start, end) in enumerate(own):
            # The parts of one row, such as a pair of segments, get different colours too.
            name = f"{row.role}, part {place + 1}" if len(own) > 1 else row.role
            spans[number].append(Span(name, start, end, (kinds[_kind(row)] + place) % KINDS))
    texts = [
        (span_chart(spans[number], len(tokens)) if spans[number] else None, [*_coloured(tokens, spans[number])])
        for number, tokens in view.originals.items()
    ]
    return {"texts": texts, "rows": [_row(row, view) for row in view.rows], "numbers": view.numbers}


def _kind(row: Row) -> str:
    return row.role.split(" ")[0]


def _spans(row: Row, view: View) -> list[tuple[int, int, int]]:
    """Returns text, first token and end of those parts of a row that are spans of a text that is shown."""
    return [
        (part.original, *part.span)
        for part in row.parts
        if part.original is not None and part.original in view.originals and part.span
    ]


def _coloured(tokens: Sequence[str], spans: Sequence[Span]) -> Iterator[tuple[str, list[int]]]:
    """Yields stretches of a text with the kinds of their spans; text far from every span is left out."""

    def kinds(place: int) -> list[int]:
        return sorted({span.kind for span in spans if span.start <= place < span.end})

    for found, places in groupby(range(len(tokens)), key=kinds):
        words = [tokens[place] for place in places]
        if spans and not found and len(words) > 2 * BEYOND + 1:
            words = [*words[:BEYOND], " […]", *words[-BEYOND:]]
        yield "".join(words), found


def _row(row: Row, view: View) -> tuple[str, str, list[Piece]]:
    """Returns the role of a row, and either its pieces or a remark that stands for them."""
    pieces = [piece for part in row.parts for piece in part.pieces]
    if row.same_as:
        return row.role, f"the same tokens as {row.same_as}", []
    # A row of spans only is marked in the text above it.
    spans = _spans(row, view)
    content = [part for part in row.parts if part.pieces[0].mark != "special"]
    if spans and len(spans) == len(content) and all(piece.mark in ("kept", "special") for piece in pieces):
        places = ", ".join(f"tokens {start + 1} to {end}" for _, start, end in spans)
        return row.role, f"{places}, as marked above", []
    return row.role, "", pieces
