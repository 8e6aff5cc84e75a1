"""Pictures as inline SVG: curves in small panels, stretches of a text, points on a map; each has a title."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.comparison.markup import Html, element, joined, text

WIDTH, HEIGHT = 320, 200
LEFT, RIGHT, TOP, BOTTOM = 40, 18, 10, 30  # room around a panel's curves
MAP = 200  # side of a map
LANE = 13  # height of a stretch of text
DASHES = (None, "6 3", "1.5 3", "9 3 1.5 3", "12 4", "4 2")  # of an encoder's curves, in the order of encoders


class Curve(NamedTuple):
    """A row of points.

    Attributes:
        x, y: of shape (n,).
        colour: the class that gives it.
        dash: of the line; None: none.
        points: whether they are marks without a line.
        encoder: what the page's filters know it by.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    colour: str
    dash: str | None = None
    points: bool = False
    encoder: str | None = None


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from ``low`` to ``high``, about ``count`` of them."""
    rough = (high - low) / count or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = min((size * factor for factor in (1, 2, 2.5, 5, 10)), key=lambda step: abs(step - rough))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """2.5M, 400k, 0.5: as axes say it."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"


def panel(title: str, curves: Sequence[Curve], *, x: str) -> Html:
    """One panel of curves, each of which has a point at least.

    Args:
        title: said to who cannot see it.
        curves: what is drawn.
        x: label of the axis.
    """
    xs = np.concatenate([curve.x for curve in curves])
    ys = np.concatenate([curve.y for curve in curves])
    left, right = 0.0, float(xs.max()) or 1.0
    low, high = float(ys.min()), float(ys.max())
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin

    def across(value: float) -> float:
        return round(LEFT + (value - left) / (right - left) * (WIDTH - LEFT - RIGHT), 1)

    def down(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    parts = [element("title", text(title))]
    for value in ticks(low, high):
        at = down(value)
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(element("text", text(short(value)), x=LEFT - 4, y=at + 3.5, text_anchor="end"))
    for value in ticks(left, right):
        parts.append(element("text", text(short(value)), x=across(value), y=HEIGHT - 16, text_anchor="middle"))
    parts.append(element("text", text(x), x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 3, text_anchor="middle"))
    for curve in curves:
        places = [(across(a), down(b)) for a, b in zip(curve.x.tolist(), curve.y.tolist(), strict=True)]
        about = element("title", text(curve.name))
        if curve.points or len(places) == 1:
            marks = [element("circle", cx=a, cy=b, r=2.2) for a, b in places]
            parts.append(element("g", about, *marks, class_=f"mark {curve.colour}", data_encoder=curve.encoder))
        else:
            line = " ".join(f"{a},{b}" for a, b in places)
            parts.append(
                element(
                    "polyline",
                    about,
                    points=line,
                    class_=f"curve {curve.colour}",
                    stroke_dasharray=curve.dash,
                    data_encoder=curve.encoder,
                )
            )
    return _svg(joined(parts), WIDTH, HEIGHT, "panel")


def lanes(title: str, length: int, spans: Sequence[tuple[str, int, int, int]]) -> Html:
    """Stretches of a text of ``length`` tokens, a lane each: (name, first, behind the last, its kind's number)."""
    wide, names = 600, 90
    parts = [element("title", text(title))]
    for place, (name, start, end, kind) in enumerate(spans):
        y = place * LANE + 2
        scale = (wide - names) / length
        x, width = round(names + start * scale, 1), round((end - start) * scale, 1)
        parts.append(element("line", x1=names, x2=wide, y1=y + 4.5, y2=y + 4.5, class_="grid"))
        parts.append(
            element("rect", x=x, y=y, width=max(width, 1.5), height=LANE - 4, rx=2, class_=f"span kind{kind}")
        )
        parts.append(element("text", text(name), x=names - 6, y=y + 8, text_anchor="end"))
    return _svg(joined(parts), wide, len(spans) * LANE + 4, "lanes")


def scatter(title: str, places: np.ndarray, labels: Sequence[int], shapes: int) -> Html:
    """A map: points of shape (n, 2) in the classes ``label<number>``; beyond ``shapes`` labels they are squares.

    Points stand in the order given, so that the n-th of every map belongs to the same text.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    span = float((high - low).max()) or 1.0
    scaled = (places - (low + high) / 2) / span * (MAP - 14) + MAP / 2
    parts = [element("title", text(title))]
    for (x, y), label in zip(scaled.round(1).tolist(), labels, strict=True):
        colour = f"label{label % shapes}"
        if label // shapes % 2:
            parts.append(
                element("rect", x=round(x - 1.7, 1), y=round(y - 1.7, 1), width=3.4, height=3.4, class_=colour)
            )
        else:
            parts.append(element("circle", cx=x, cy=y, r=2, class_=colour))
    return _svg(joined(parts), MAP, MAP, "map")


def key(colour: str, dash: str | None = None) -> Html:
    """A short line for a legend."""
    line = element("line", x1=0, x2=34, y1=5, y2=5, class_=f"curve {colour}", stroke_dasharray=dash)
    return element("svg", line, viewBox="0 0 34 10", width=34, height=10, aria_hidden="true")


def _svg(content: Html, width: float, height: float, kind: str) -> Html:
    return element("svg", content, viewBox=f"0 0 {width:g} {height:g}", role="img", class_=kind)
