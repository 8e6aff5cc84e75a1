"""A paper's figure from our own scores: picture, data, and whether each of its claims holds."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from analysis.figures import drawing, labelled_maps, span_lengths, style
from analysis.figures.exhibits import Figure
from analysis.figures.labelled_maps import LabelledMap
from analysis.figures.scores import AXES, Point
from analysis.figures.verdicts import Finding, Verdict, decide
from analysis.reporting.intervals import LEAST
from analysis.reporting.rendering import escape_markdown
from data.display import csv_cell
from data.errors import UserError
from data.files import atomic_write

MOST_FINDINGS = 8  # shown of a claim


def draw(
    figure: Figure,
    points: Sequence[Point],
    folder: Path,
    note: str,
    maps: Sequence[LabelledMap] = (),
    by: str = "",
) -> list[Path]:
    """Writes ``figure`` of ``points`` into ``folder``: <name>.pdf, .png, .csv and .md, in this order.

    Args:
        figure: what is drawn.
        points: its scores. In a density figure, lengths; they are sampled where there are none.
        folder: of the files.
        note: which runs the scores are of (sizes, weights, tokens, protocol, data); shown in picture and text.
        maps: of a figure of kind "map": they are drawn, their scores join ``points``, and <name>-places.csv is
            written as well.
        by: names scores that stand in for the paper's.

    Returns:
        The paths. The CSV has the points and the printed values; the Markdown has the picture and the verdicts.

    Raises:
        UserError: in one line, if there is nothing to draw.
    """
    points = list(points)
    if figure.spans is not None:
        points = points or span_lengths.lengths(figure.spans)
    elif figure.kind == "map":
        points += labelled_maps.agreements(maps)
    if not points or (figure.kind == "map" and not maps):
        needed = "maps" if figure.kind == "map" else "scores"
        raise UserError(f"There is nothing to draw for figure {figure.id}: it has no {needed} yet.")
    with style.look():
        if figure.spans is not None:
            picture = span_lengths.picture(figure, figure.spans, points, note)
        elif figure.kind == "map":
            picture = labelled_maps.picture(figure, maps, note)
        else:
            picture = drawing.picture(figure, points, note)
        paths = style.save_pictures(picture, folder, figure.name)
    paths += [folder / f"{figure.name}.csv", folder / f"{figure.name}.md"]
    _write_points(paths[2], figure, points)
    with atomic_write(paths[3]) as file:
        file.write(_text(figure, decide(figure.claims, figure.over(points)), note, by))
    if maps:
        paths.append(folder / f"{figure.name}-places.csv")
        _write_places(paths[4], maps)
    return paths


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
    """Returns a section of Markdown, by line: each of the paper's claims with its outcome; none without claims.

    Args:
        verdicts: of the claims.
        unit: of the findings.
        by: as in ``draw``.
    """
    if not verdicts:
        return []
    lines = ["## What the paper states, and what these runs show", ""]
    if by:
        lines += [escape_markdown(f"Decided by {by} instead of the paper's scores:"), ""]
    for verdict in verdicts:
        text, section = escape_markdown(verdict.claim.text), escape_markdown(verdict.claim.section)
        where = f"section {section}" if section[:1].isdigit() else section
        lines.append(f"- **{verdict.outcome}** ({where}): {text}")
        if verdict.outcome == "undecided at this size" and verdict.seeds < LEAST:
            seeds = f"{verdict.seeds} seed{'s' * (verdict.seeds != 1)}"
            lines.append(f"  - {seeds}: at least {LEAST} are needed")
        if verdict.remark:
            lines.append(f"  - {escape_markdown(verdict.remark)}")
        shown = _nearest(verdict.findings)
        lines += [f"  - {_finding(found, unit)}" for found in shown]
        if len(shown) < len(verdict.findings):
            lines.append(f"  - and {len(verdict.findings) - len(shown)} more, whose intervals begin higher")
    return [
        *lines,
        "",
        f"Differences have 95 % t-intervals over seeds, of means over settings, as runs of one seed share their "
        f"start and data order. They are paired where both sides have the same seeds and settings. Fewer than "
        f"{LEAST} seeds decide nothing (seeds=[{','.join(map(str, range(1, LEAST + 1)))}] trains the missing "
        f"ones). The condition that a claim puts on a difference follows it: above 0 concerns its sign only. A "
        f"claim of several differences holds if each of them does; a single one refutes it by a wider interval "
        f"(Bonferroni). The verdicts show whether these runs, at their sizes, agree with the paper, not whether "
        f"the paper's own runs are right.",
        "",
    ]


def _nearest(findings: Sequence[Finding]) -> list[Finding]:
    """All findings, or of many those whose intervals begin lowest, in their order."""
    lowest = sorted(findings, key=lambda found: (found.low, found.value))[:MOST_FINDINGS]
    return [found for found in findings if found in lowest]


def _finding(found: Finding, unit: str) -> str:
    unit = "%" if found.share else unit
    value, low, high = (f"{x:.0f}" if found.share else f"{x:+.2f}" for x in (found.value, found.low, found.high))
    between = f"[{low}, {high}]" if math.isfinite(found.low) else "no interval"
    of = found.of.replace("seeds", "seed") if found.n == 1 else found.of
    return (
        f"{escape_markdown(found.what)}: {value} {unit} {between}, {found.n} {of}; claimed: {found.condition.text}"
    )
