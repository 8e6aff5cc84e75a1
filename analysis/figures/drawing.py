"""Pictures of reproduced figures of scores: lines, distributions and bars, with printed values as marks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Picture
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.figures import style
from analysis.figures.exhibits import Figure
from analysis.figures.scores import Mark, Point, in_order
from data.display import is_number

LINE = 132  # characters of the note in one line of the head
LETTERS = 12  # of an axis label in an inch of height
PANEL, TALL = 2.5, 3.5  # heights in inches of one of several panels, and of a single one
MOST_ACROSS = 3
BOXED = 4  # the fewest scores for a box
KEYS = {  # where several scores lie at one place
    "line": "Filled: mean; bar: ± 1 standard deviation over seeds and settings; small dots: single scores.",
    "distribution": "Dots: single scores; box: quartiles and median, whiskers to 1.5 times the box; dotted: mean.",
    "bars": "Bar: mean (the axis does not start at 0); whisker: ± 1 standard deviation; dots: single scores.",
}
SINGLE_KEYS = {"line": "", "distribution": KEYS["distribution"], "bars": "The axis does not start at 0."}
PRINTED_KEY = "Open: printed in the paper{apart}."


@dataclass(frozen=True)
class Series:
    """Colour, marker and dash of a group everywhere in a figure."""

    hue: str
    marker: str
    dash: Any


def looks(figure: Figure, groups: Sequence[str]) -> dict[str, Series]:
    """Returns a look for each group: its objective's colour, else grey, or a ramp if no group has an objective.

    Of several groups of one colour the later ones are paler and dashed; each group has its own marker.
    """
    objectives = [group for group in groups if figure.colours.get(group, _plain(group)) in style.OBJECTIVES]
    # A group without an objective must not look like one with it.
    free = iter([style.OTHER] * len(groups) if objectives else style.ramp(len(groups)))
    found: dict[str, Series] = {}
    used: list[str] = []
    for number, group in enumerate(groups):
        hue = style.OBJECTIVES.get(figure.colours.get(group, _plain(group))) or next(free)
        before = used.count(hue)
        used.append(hue)
        pale = style.lighter(hue, min(0.35 * before, 0.6)) if before else hue
        marker = style.MARKERS[number % len(style.MARKERS)]
        found[group] = Series(pale, marker, style.DASHES[before % len(style.DASHES)])
    return found


def _plain(group: str) -> str:
    """Returns the name of a group's objective: "conssent_d" of "ConsSent-D"."""
    return group.lower().replace("-", "_").replace(" ", "_")


def framed(figure: Figure, note: str, height: float, keys: Sequence[str] = ()) -> tuple[Picture, SubFigure]:
    """Returns a picture with title and ``note`` in its head, and the body below, ``height`` inches tall."""
    lines = wrap(note, LINE) + wrap(" ".join(keys), LINE)
    head_height = 0.36 + 0.135 * len(lines)
    picture = Picture(figsize=(style.WIDTH, head_height + height))
    head, body = picture.subfigures(2, 1, squeeze=False, height_ratios=(head_height, height))[:, 0]
    head.text(0.012, 1 - 0.09 / head_height, figure.title, va="top", fontsize=10, fontweight="bold")
    head.text(
        0.012,
        1 - 0.30 / head_height,
        "\n".join(lines),
        va="top",
        fontsize=7,
        linespacing=1.3,
        color=style.MUTED,
    )
    return picture, body


def picture(figure: Figure, points: Sequence[Point], note: str) -> Picture:
    """Draws ``points`` for the kinds "line", "distribution" and "bars"; within ``style.look()``.

    Where the printed values lie far from ours they have a strip of their own above, with a scale of its own.
    """
    panels = in_order(figure.panels, (point.panel for point in points))
    groups = in_order(figure.groups, [p.group for p in points] + [mark.group for mark in figure.printed])
    ticks = [
        x
        for x in in_order(figure.ticks, [p.x for p in points] + [m.x for m in figure.printed])
        if x or figure.kind == "distribution"
    ]
    series = looks(figure, groups)
    across = min(len(panels), MOST_ACROSS)
    rows = -(-len(panels) // across)
    apart = any(_far(figure, points, panel) for panel in panels)
    height = rows * ((PANEL if len(panels) > 1 else TALL) + 0.5 * apart) + 0.3
    printed = PRINTED_KEY.format(apart=", on a scale of its own" if apart else "")
    repeated = max(Counter((p.panel, p.group, p.x) for p in points).values(), default=1) > 1
    keys = [(KEYS if repeated else SINGLE_KEYS)[figure.kind], *([printed] if figure.printed else [])]
    whole, body = framed(figure, note, height, keys)
    heights = (1.0, 2.8) if apart else (1.0,)
    grid = body.add_gridspec(rows * len(heights), across, height_ratios=heights * rows)
    for number, panel in enumerate(panels):
        row, column = divmod(number, across)
        axes = body.add_subplot(grid[(row + 1) * len(heights) - 1, column])
        above = body.add_subplot(grid[row * 2, column], sharex=axes) if apart else axes
        ours = [point for point in points if point.panel == panel]
        marks = [mark for mark in figure.printed if mark.panel == panel]
        places = (_Clusters if figure.kind == "bars" else _Places)(figure, groups, ticks, repeated)
        _DRAWN[figure.kind](axes, ours, places, series)
        _printed(above, marks, places, series)
        places.label(axes)
        scores = _extent(ours, figure.kind) + ([] if apart else [m.score for m in marks])
        _limits(axes, scores, from_below=figure.kind == "bars")
        above.set_title(panel)
        if apart:
            _limits(above, [mark.score for mark in marks], ticks=3)
            above.tick_params(axis="x", length=0, labelbottom=False)
            above.spines["bottom"].set_visible(False)
            above.grid(axis="x", visible=places.linear)
            if column == 0:
                above.set_ylabel("printed", fontsize=7)
        if column == 0:
            of_it = heights[-1] / sum(heights) / rows
            axes.set_ylabel("\n".join(wrap(figure.y, int(LETTERS * height * of_it))))
        if number >= len(panels) - across:
            axes.set_xlabel(figure.x)
    _legend(body, figure, groups, series, outside_right=len(panels) == 1)
    return whole


class _Places:
    """Positions on the x axis by group and tick; error bars of ``repeated`` scores stand side by side."""

    def __init__(self, figure: Figure, groups: Sequence[str], ticks: Sequence[str], repeated: bool) -> None:
        self.groups, self.ticks = list(groups), list(ticks)
        linear = figure.scale == "linear" and all(map(is_number, ticks))
        self.at = {x: float(x) if linear else float(i) for i, x in enumerate(ticks)}
        self.linear = linear and figure.kind != "bars"
        self.step = min(np.diff(sorted(self.at.values())), default=1.0)
        if figure.kind == "distribution":  # groups stand side by side
            self.width = 0.8 * self.step / max(1, len(groups))
        else:
            self.width = self.step * min(0.05, 0.4 / max(1, len(groups))) * repeated

    def __call__(self, group: str, x: str) -> float:
        return self.at[x] + (self.groups.index(group) - (len(self.groups) - 1) / 2) * self.width

    def label(self, axes: Axes) -> None:
        axes.set_xticks(list(self.at.values()), self.ticks)
        if self.at:
            axes.set_xlim(min(self.at.values()) - 0.5 * self.step, max(self.at.values()) + 0.5 * self.step)
        axes.grid(axis="x", visible=self.linear)


class _Clusters(_Places):
    """Positions of clusters of bars, one for each group, with a bar for each tick; without ticks one bar."""

    def __init__(self, figure: Figure, groups: Sequence[str], ticks: Sequence[str], repeated: bool) -> None:
        super().__init__(figure, groups, ticks, repeated)
        self.width = 0.84 / max(1, len(ticks))

    def __call__(self, group: str, x: str) -> float:
        inside = (self.ticks.index(x) - (len(self.ticks) - 1) / 2) * self.width if x else 0.0
        return self.groups.index(group) + inside

    def label(self, axes: Axes) -> None:
        long = max(map(len, self.groups), default=0) > 56 // max(1, len(self.groups))
        axes.set_xticks(range(len(self.groups)), self.groups)
        for text in axes.get_xticklabels() if long else ():
            text.set(rotation=25, ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.6, len(self.groups) - 0.4)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)


def _lines(axes: Axes, points: Sequence[Point], places: _Places, series: dict[str, Series]) -> None:
    for group, look in series.items():
        scores = _by_x(points, group)
        if level := scores.pop("", []):
            axes.axhline(fmean(level), color=look.hue, linestyle=look.dash, linewidth=1.2, zorder=1.5)
            if len(level) > 1:
                low, high = (fmean(level) + sign * stdev(level) for sign in (-1, 1))
                axes.axhspan(low, high, color=look.hue, alpha=0.12, linewidth=0, zorder=1)
        along = [x for x in places.ticks if x in scores]
        if not along:
            continue
        at = [places(group, x) for x in along]
        axes.errorbar(
            at,
            [fmean(scores[x]) for x in along],
            [stdev(scores[x]) if len(scores[x]) > 1 else math.nan for x in along],
            color=look.hue,
            linestyle=look.dash,
            marker=look.marker,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=0.9,
            capsize=2,
            zorder=3,
        )
        for place, x in zip(at, along, strict=True):
            if len(scores[x]) > 1:
                axes.plot([place] * len(scores[x]), scores[x], ".", color=look.hue, markersize=3, alpha=0.45)


def _distributions(axes: Axes, points: Sequence[Point], places: _Places, series: dict[str, Series]) -> None:
    for group, look in series.items():
        for x, scores in _by_x(points, group).items():
            place, width = places(group, x), places.width
            if len(scores) >= BOXED:
                axes.boxplot(
                    scores,
                    positions=[place],
                    widths=[0.75 * width],
                    showfliers=False,
                    patch_artist=True,
                    manage_ticks=False,
                    boxprops={"facecolor": style.lighter(look.hue, 0.75), "edgecolor": look.hue},
                    medianprops={"color": style.INK, "linewidth": 1.2},
                    whiskerprops={"color": look.hue},
                    capprops={"color": look.hue},
                    zorder=2,
                )
            mean = fmean(scores)
            reach = 0.375 * width
            axes.plot([place - reach, place + reach], [mean, mean], color=look.hue, linewidth=1, linestyle=":")
            # Golden-ratio steps spread any number of dots evenly and reproducibly.
            spread = (np.arange(1, len(scores) + 1) * 0.618034) % 1 - 0.5 if len(scores) > 1 else np.zeros(1)
            axes.plot(
                place + 0.5 * width * spread,
                scores,
                linestyle="none",
                marker=look.marker,
                color=look.hue,
                markersize=3.6,
                markeredgecolor="white",
                markeredgewidth=0.3,
                alpha=0.85,
                zorder=3,
            )


def _bars(axes: Axes, points: Sequence[Point], places: _Places, series: dict[str, Series]) -> None:
    for group, look in series.items():
        for x, scores in _by_x(points, group).items():
            place = places(group, x)
            axes.bar(place, fmean(scores), 0.9 * places.width, color=look.hue, zorder=2)
            if len(scores) > 1:
                axes.errorbar(
                    place, fmean(scores), stdev(scores), color=style.INK, elinewidth=0.8, capsize=2, zorder=3
                )
                axes.plot([place] * len(scores), scores, ".", color=style.INK, markersize=2.5, zorder=3, alpha=0.6)
            bright = float(np.dot(to_rgb(look.hue), (0.299, 0.587, 0.114))) > 0.5
            axes.annotate(
                x,
                (place, 0),
                (0, 3),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                fontsize=6.5,
                color=style.INK if bright else "white",
                zorder=4,
            )


def _printed(axes: Axes, marks: Sequence[Mark], places: _Places, series: dict[str, Series]) -> None:
    for mark in marks:
        look = series[mark.group]
        if not mark.x and not isinstance(places, _Clusters):
            axes.axhline(mark.score, color=look.hue, linestyle=(0, (1, 3)), linewidth=1)
            continue
        axes.plot(
            places(mark.group, mark.x),
            mark.score,
            marker=look.marker,
            markersize=5.5,
            color="white",
            markeredgecolor=look.hue,
            markeredgewidth=1.3,
            zorder=4,
        )


def _limits(axes: Axes, scores: Sequence[float], ticks: int = 5, from_below: bool = False) -> None:
    """Leaves room around ``scores``, so that a tenth of a point never fills the panel."""
    if not scores:
        return
    low, high = min(scores), max(scores)
    room = max((0.12 if ticks > 3 else 0.25) * (high - low), 0.25)
    axes.set_ylim(low - (3 * room if from_below else room), high + room)
    axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))


def _extent(points: Sequence[Point], kind: str) -> list[float]:
    """Returns all scores and, where they are drawn, the ends of their error bars."""
    found = [point.score for point in points]
    if kind != "distribution":
        for group in {point.group for point in points}:
            for scores in _by_x(points, group).values():
                if len(scores) > 1:
                    found += [fmean(scores) - stdev(scores), fmean(scores) + stdev(scores)]
    return found


def _far(figure: Figure, points: Sequence[Point], panel: str) -> bool:
    """Returns whether printed marks on the same scale would squeeze our scores."""
    ours = [point.score for point in points if point.panel == panel]
    marks = [mark.score for mark in figure.printed if mark.panel == panel]
    if not ours or not marks:
        return False
    span = max(max(ours) - min(ours), 1.0)
    return max(marks) > max(ours) + span or min(marks) < min(ours) - span


def _legend(
    body: SubFigure, figure: Figure, groups: Sequence[str], series: dict[str, Series], *, outside_right: bool
) -> None:
    if figure.kind == "bars" or not any(groups):
        return
    handles = [
        Line2D(
            [],
            [],
            color=look.hue,
            linestyle=look.dash if figure.kind == "line" else "none",
            marker=look.marker,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            label=group,
        )
        for group, look in series.items()
    ]
    if outside_right:
        body.legend(handles=handles, loc="outside right upper", title=figure.legend or None, **_LEGEND)
    else:
        rows = -(-len(groups) // max(1, 110 // (8 + max(map(len, groups)))))
        across = -(-len(groups) // rows)
        body.legend(
            handles=handles, loc="outside lower center", ncols=across, title=figure.legend or None, **_LEGEND
        )


_LEGEND = {"handlelength": 2.6, "title_fontsize": 7.5, "columnspacing": 1.2, "alignment": "left"}


def _by_x(points: Sequence[Point], group: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for point in points:
        if point.group == group:
            found.setdefault(point.x, []).append(point.score)
    return found


_DRAWN = {"line": _lines, "distribution": _distributions, "bars": _bars}
