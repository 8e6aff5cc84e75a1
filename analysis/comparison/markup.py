"""HTML as text: elements, escaped, and the tables of ``analysis.senteval.rendering``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any, NewType

from analysis.senteval.printed import Key
from analysis.senteval.rendering import Grid, Row, heading

Html = NewType("Html", str)  # what is escaped already


def text(value: object) -> Html:
    """``value`` as text, unless it is HTML already; see ``element``."""
    return Html(escape(str(value)))


def joined(parts: Iterable[Html], between: str = "") -> Html:
    return Html(between.join(parts))


def element(name: str, *content: Html, **attributes: Any) -> Html:
    """``<name attribute="...">content</name>``.

    Attributes that are None are left out, True stands alone; ``class_`` is class, "_" is "-".
    """
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{shown}>{''.join(content)}</{name}>")


def table(
    caption: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[Html]]], **attributes: Any
) -> Html:
    """A table with a header for each column and row, in a frame that scrolls where the page is narrow.

    Args:
        caption: says what it shows.
        columns: headers; the first is that of the rows' own.
        rows: the header and the cells of each.
        attributes: of the table.
    """
    head = element("tr", *(element("th", text(name), scope="col") for name in columns))
    body = [
        element("tr", element("th", text(name), scope="row"), *(element("td", cell) for cell in cells))
        for name, cells in rows
    ]
    inside = [element("caption", text(caption)), element("thead", head), element("tbody", *body)]
    shown = element("table", *inside, **attributes)
    # A region that scrolls must be reached by the keyboard too.
    return element("div", shown, class_="wide", tabindex=0, role="region", aria_label=caption)


def score_table(grid: Grid, unranked: Collection[Key] = ()) -> Html:
    """``grid`` with the best of ours in each column marked, but in those that are ``unranked``; notes below."""

    def cell(row: Row, key: Key) -> Html:
        if key not in row.cells:
            return text("–")
        shown = text(row.cells[key].text)
        return element("strong", shown) if key not in unranked and grid.is_best(row, key) else shown

    rows = [(row.label, [cell(row, key) for key in grid.columns]) for row in grid.ours + grid.printed]
    shown = table(grid.title, ["", *map(heading, grid.columns)], rows, class_="scores")
    return joined([shown, *(element("p", text(note), class_="note") for note in grid.notes)])
