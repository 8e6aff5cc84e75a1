"""A paper's figure from our own scores: picture, data, and whether each statement about it holds."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from analysis.figures import drawing, labelled_maps, span_lengths, style
from analysis.figures.description import AXES, Figure, Mark, Point, Statement, figure_from
from analysis.figures.labelled_maps import LabelledMap, labelled_map
from analysis.figures.verdicts import LEAST, Finding, Verdict, judge
from analysis.senteval.rendering import escape_markdown
from data.display import csv_cell
from data.errors import UserError
from data.files import atomic_write

__all__ = [
    "Figure",
    "LabelledMap",
    "Mark",
    "Point",
    "Statement",
    "draw",
    "figure_from",
    "judge",
    "labelled_map",
    "verdict_lines",
]

MOST_FINDINGS = 8  # shown of a statement


def draw(
    figure: Figure,
    points: Sequence[Point],
    folder: Path,
    note: str,
    maps: Sequence[LabelledMap] = (),
    by: str = "",
) -> list[Path]:
    """Writes ``figure`` of ``points`` into ``folder``: <name>.pdf, .png, .csv and .md, in this order.

    The CSV has the points and the printed values; the Markdown has the picture and, for each of the paper's
    statements, whether ours bears it out. ``note`` says what the scores are of (sizes, weights, tokens,
    protocol, data) and stands in picture and text; ``by`` names scores that stand in for the paper's. Of kind
    "map", ``maps`` are drawn, their scores join ``points``, and <name>-places.csv is written too. Of kind
    "density", lengths are sampled by the figure's settings where ``points`` has none.

    Raises:
        UserError: in one line, if there is nothing to draw.
    """
    points = list(points)
    if figure.kind == "density":
        points = points or span_lengths.lengths(figure.settings)
    elif figure.kind == "map":
        points += labelled_maps.agreements(maps)
    if not points or (figure.kind == "map" and not maps):
        raise UserError(f"There is nothing to draw for figure {figure.id}: it has no {_WHAT[figure.kind]} yet.")
    with style.look():
        if figure.kind == "density":
            picture = span_lengths.picture(figure, points, note)
        elif figure.kind == "map":
            picture = labelled_maps.picture(figure, maps, note)
        else:
            picture = drawing.picture(figure, points, note)
        paths = style.save_pictures(picture, folder, figure.name)
    paths += [folder / f"{figure.name}.csv", folder / f"{figure.name}.md"]
    _write_points(paths[2], figure, points)
    with atomic_write(paths[3]) as file:
        file.write(_text(figure, judge(figure, points), note, by))
    if maps:
        paths.append(folder / f"{figure.name}-places.csv")
        _write_places(paths[4], maps)
    return paths


_WHAT = {"line": "scores", "distribution": "scores", "bars": "scores", "density": "lengths", "map": "maps"}


def _write_points(path: Path, figure: Figure, points: Sequence[Point]) -> None:
    with atomic_write(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["source", *Point._fields])
        writer.writerows(["ours", *map(csv_cell, point)] for point in points)
        for mark in figure.printed:
            place = (csv_cell(getattr(mark, axis)) for axis in AXES)
            writer.writerow(["printed", *place, "", mark.score, "", ""])


def _write_places(path: Path, maps: Sequence[LabelledMap]) -> None:
    with atomic_write(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["panel", "run", "seed", "label", "x", "y", "text"])
        for one in maps:
            for (x, y), label, text in zip(one.places, one.data.labels, one.data.texts, strict=True):
                writer.writerow(map(csv_cell, (one.panel, one.run, one.seed, label, float(x), float(y), text)))


def _text(figure: Figure, verdicts: Sequence[Verdict], note: str, by: str) -> str:
    title = escape_markdown(figure.title)
    lines = [f"# {title}", "", f"![{title}]({figure.name}.png)", "", escape_markdown(note), ""]
    lines += [f"[As PDF]({figure.name}.pdf), [the data]({figure.name}.csv).", ""]
    return "\n".join([*lines, *verdict_lines(verdicts, "tokens" if figure.kind == "density" else "points", by)])


def verdict_lines(verdicts: Sequence[Verdict], unit: str = "points", by: str = "") -> list[str]:
    """A section of Markdown, by line: each of the paper's statements with its outcome; none without statements.

    ``unit`` is the findings', ``by`` as ``draw`` takes it.
    """
    if not verdicts:
        return []
    lines = ["## What the paper states, and what ours shows", ""]
    if by:
        lines += [escape_markdown(f"Here by {by}, in place of the paper's scores:"), ""]
    for verdict in verdicts:
        says = escape_markdown(verdict.statement.says)
        section = escape_markdown(verdict.statement.section)
        where = f"section {section}" if section[:1].isdigit() else section
        lines.append(f"- **{verdict.outcome}** ({where}): {says}")
        if verdict.outcome == "undecided at this size" and verdict.seeds < LEAST:
            lines.append(
                f"  - of {verdict.seeds} seed{'s' * (verdict.seeds != 1)}: fewer than {LEAST} decide nothing"
            )
        if verdict.remark:
            lines.append(f"  - {escape_markdown(verdict.remark)}")
        shown = _nearest(verdict.findings)
        lines += [f"  - {_finding(found, unit)}" for found in shown]
        if len(shown) < len(verdict.findings):
            lines.append(f"  - and {len(verdict.findings) - len(shown)} more, whose intervals begin higher")
    return [
        *lines,
        "",
        "Differences have 95 % t-intervals over seeds, of means over settings, as runs of one seed share its "
        "start and data order; they are paired where both sides have the same seeds and settings. Fewer than "
        f"{LEAST} seeds decide nothing (seeds=[{','.join(map(str, range(1, LEAST + 1)))}] trains the missing "
        "ones). What is asked of a difference stands behind it: above 0, its sign alone. "
        "A statement of several differences holds if each does; that one is contrary counts by a wider "
        "interval (Bonferroni). The words say whether these runs, at their sizes, agree with the paper; where "
        "they do not, that is no word on the paper's own runs.",
        "",
    ]


def _nearest(findings: Sequence[Finding]) -> list[Finding]:
    """All findings, or of many those whose intervals begin lowest, as they stand."""
    lowest = sorted(findings, key=lambda found: (found.low, found.value))[:MOST_FINDINGS]
    return [found for found in findings if found in lowest]


def _finding(found: Finding, unit: str) -> str:
    unit = "%" if found.share else unit
    value, low, high = ((f"{number:.0f}" if found.share else f"{number:+.2f}") for number in found[1:4])
    between = f"[{low}, {high}]" if math.isfinite(found.low) else "no interval"
    of = found.of.replace("seeds", "seed") if found.n == 1 else found.of
    return f"{escape_markdown(found.what)}: {value} {unit} {between}, {found.n} {of}; asked: {found.asked}"
