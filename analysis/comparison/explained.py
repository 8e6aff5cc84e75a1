"""The page's first part: what each objective does to a text, drawn with the tokens that it really gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from analysis.comparison import charts
from analysis.comparison.contents import ObjectiveView, TaskView
from analysis.comparison.marking import BEYOND, Mark, Piece, Row, View
from analysis.comparison.markup import Html, element, joined, text

# Beside its colour each mark has a form of its own: see the style sheet.
SAID: dict[Mark, str] = {
    "hidden": "hidden, to be guessed (what was there below it)",
    "exchanged": "exchanged for another token, to be guessed",
    "asked": "left as it is, to be guessed nevertheless",
    "deleted": "deleted",
    "added": "put in",
    "replaced": "replaced",
    "moved": "moved here",
    "other": "from elsewhere",
}
KINDS = 4  # of stretches that are told apart by colour
Stretch = tuple[str, int, int, int]  # name, first token, one behind the last, number of its kind


def section(views: Sequence[ObjectiveView]) -> Html:
    """An article an objective."""
    used = {piece.mark for piece in _pieces(views)}
    legend = [
        element(
            "li",
            _piece(Piece(" token", mark, "was" if mark in ("hidden", "exchanged", "replaced") else "")),
            text(f" {said}"),
        )
        for mark, said in SAID.items()
        if mark in used
    ]
    parts = [element("ul", *legend, class_="legend")] if legend else []
    return joined([*parts, *map(_article, views)])


def _pieces(views: Sequence[ObjectiveView]) -> Iterator[Piece]:
    for objective in views:
        for task in objective.tasks:
            for view in task.views:
                for row in view.rows:
                    for part in row.parts:
                        yield from part.pieces


def _article(shown: ObjectiveView) -> Html:
    parts = [element("h3", text(shown.objective), class_=f"o-{shown.objective}")]
    if shown.headline:
        parts.append(element("p", text(shown.headline)))
    if shown.equation:
        parts.append(element("pre", text(shown.equation)))
    if shown.problem:
        parts.append(element("p", text(f"Not shown: {shown.problem}"), class_="problem"))
    for task in shown.tasks:
        parts.append(element("div", _task(task, shown.encoder), class_="task"))
    return element("article", *parts, data_objective=shown.objective, class_=f"o-{shown.objective}")


def _task(task: TaskView, encoder: str) -> Html:
    about = f"{task.name}: " if task.name else ""
    parts = [element("h4", text(f"{about}drawn from a {task.unit}, in the tokens of {encoder}"))]
    return joined([*parts, *map(_view, task.views)])


def _view(view: View) -> Html:
    kinds = {name: number % KINDS for number, name in enumerate(dict.fromkeys(_role(row) for row in view.rows))}
    spans: dict[int, list[Stretch]] = {}
    for row in view.rows:
        stretches = [] if row.same_as else _stretches(row, view)
        for place, (number, start, end) in enumerate(stretches):
            # The parts of one row, a pair of segments say, are told apart too.
            name = f"{row.role}, part {place + 1}" if len(stretches) > 1 else row.role
            kind = (kinds[_role(row)] + place) % KINDS
            spans.setdefault(number, []).append((name, start, end, kind))
    parts = []
    for number, tokens in view.originals.items():
        if marked := spans.get(number, []):
            title = f"Where in the text of {len(tokens)} tokens: " + "; ".join(
                f"{name} {start + 1} to {end}" for name, start, end, _ in marked
            )
            lanes = charts.lanes(title, len(tokens), marked)
            parts.append(element("div", lanes, class_="wide", tabindex=0, role="region", aria_label="Stretches"))
        parts.append(element("p", *_covered(tokens, spans.get(number, [])), class_="text"))
    parts += [_row(row, view) for row in view.rows]
    if view.numbers:
        told = ", ".join(f"{name} = {value}" for name, value in view.numbers.items())
        parts.append(element("p", text(f"with it: {told}"), class_="note"))
    return element("div", *parts, class_="view")


def _role(row: Row) -> str:
    return row.role.split(" ")[0]


def _stretches(row: Row, view: View) -> list[tuple[int, int, int]]:
    """Of those parts of a row that are stretches of a text that is shown: its number, first token, one behind."""
    return [
        (part.original, *part.span)
        for part in row.parts
        if part.original is not None and part.original in view.originals and part.span
    ]


def _covered(tokens: Sequence[str], spans: Sequence[Stretch]) -> Iterator[Html]:
    """A text's tokens, those of stretches in the colours of their kinds; what is far from all is left out."""

    def kinds(place: int) -> tuple[int, ...]:
        return tuple(sorted({kind for _, start, end, kind in spans if start <= place < end}))

    for found, places in groupby(range(len(tokens)), key=kinds):
        words = [tokens[place] for place in places]
        if found:
            yield element("span", text("".join(words)), class_=" ".join(f"in{kind}" for kind in found))
            continue
        if spans and len(words) > 2 * BEYOND + 1:
            words = [*words[:BEYOND], " […]", *words[-BEYOND:]]
        yield text("".join(words))


def _row(row: Row, view: View) -> Html:
    head = joined([element("b", text(row.role)), text(" ")])
    if row.same_as:
        return element("p", head, text(f"the same tokens as {row.same_as}"), class_="row")
    # What is nothing but a stretch stands in colour above.
    plain = all(piece.mark in ("kept", "special") for part in row.parts for piece in part.pieces)
    stretches = _stretches(row, view)
    if plain and stretches and len(stretches) == sum(part.pieces[0].mark != "special" for part in row.parts):
        told = ", ".join(f"tokens {start + 1} to {end}" for _, start, end in stretches)
        return element("p", head, text(f"{told}, as marked above"), class_="row")
    return element("p", head, *(_piece(piece) for part in row.parts for piece in part.pieces), class_="row")


def _piece(piece: Piece) -> Html:
    if piece.mark == "kept":
        return text(piece.text)
    name = {"deleted": "del", "added": "ins", "replaced": "ins"}.get(piece.mark, "span")
    blank = text(" ") if piece.text.startswith(" ") else text("")
    shown = text(piece.text.strip() or "␣")
    if piece.was and piece.mark != "asked":
        shown = joined([shown, element("small", text(piece.was))])
    said = SAID.get(piece.mark)
    return joined([blank, element(name, shown, class_=f"m {piece.mark}", title=said)])
