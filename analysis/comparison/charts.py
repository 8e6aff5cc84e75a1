"""Coordinates of the page's charts; the template draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis.figures.style import short

WIDTH, HEIGHT = 320, 200  # of a loss panel
LEFT, RIGHT, TOP, BOTTOM = 40, 18, 10, 30  # margins around its curves
MAP = 200  # side of a map
DASHES = ("none", "6 3", "1.5 3", "9 3 1.5 3", "12 4", "4 2")  # of an encoder's curves, in the order of encoders
DIGITS = range(3, 6)  # of a tick's label, for which the margin has room
BREAK = 5.0  # per cent of a span chart's width where it leaves out text


class Curve(NamedTuple):
    """A line, or points without a line, of arrays ``x`` and ``y`` of shape (n,)."""

    name: str
    x: np.ndarray
    y: np.ndarray
    encoder: str
    points: bool = False


class Span(NamedTuple):
    """Tokens ``start`` to ``end`` (exclusive) of a text; ``kind`` is the number of its colour."""

    name: str
    start: int
    end: int
    kind: int


def labelled(ticks: Sequence[float]) -> list[tuple[float, str]]:
    """Returns ticks with labels that all differ; the middle tick only if DIGITS do not suffice."""
    for digits in DIGITS:
        labels = [short(value, digits) for value in ticks]
        if len({*labels}) == len(labels):
            return [*zip(ticks, labels, strict=True)]
    middle = ticks[len(ticks) // 2]
    return [(middle, short(middle))]


def panel(curves: Sequence[Curve], chance: float | None = None) -> dict[str, Any]:
    """Returns ticks, curves and the chance level of a loss panel, in its own units.

    Each curve needs at least one point. ``chance`` is left out (None) if it would squeeze the curves into less
    than half of the panel.
    """
    xs, ys = (np.concatenate(values) for values in zip(*((curve.x, curve.y) for curve in curves), strict=True))
    right, low, high = float(xs.max()) or 1.0, float(ys.min()), float(ys.max())
    if chance is not None and low - (high - low) <= chance <= high + (high - low):
        low, high = min(low, chance), max(high, chance)
    else:
        chance = None
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin

    def across(value: float) -> float:
        return round(LEFT + value / right * (WIDTH - LEFT - RIGHT), 1)

    def down(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(start: float, end: float) -> list[tuple[float, str]]:
        values = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(start, end)
        return labelled([float(value) for value in values if start <= value <= end])

    return {
        "x_ticks": [(across(value), label) for value, label in ticks(0, right)],
        "y_ticks": [(down(value), label) for value, label in ticks(low, high)],
        "chance": None if chance is None else down(chance),
        "curves": [
            (curve, [(across(x), down(y)) for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True)])
            for curve in curves
        ],
    }


def span_chart(spans: Sequence[Span], length: int) -> dict[str, Any]:
    """Returns where spans of a text of ``length`` tokens stand, in per cent of the chart's width.

    The chart covers the surroundings of the spans only; between distant spans text is left out.
    """
    around = max(3, round(0.08 * max(span.end - span.start for span in spans)))
    windows: list[list[int]] = []
    for span in sorted(spans, key=lambda span: span.start):
        low, high = max(0, span.start - around), min(length, span.end + around)
        if windows and low <= windows[-1][1] + around:
            windows[-1][1] = max(high, windows[-1][1])
        else:
            windows.append([low, high])
    gap = min(BREAK, 40 / max(1, len(windows) - 1))
    scale = (100 - gap * (len(windows) - 1)) / sum(high - low for low, high in windows)
    offsets, place = [], 0.0
    for low, high in windows:
        offsets.append(place)
        place += (high - low) * scale + gap

    def across(token: int) -> float:
        window = max(number for number, (low, _) in enumerate(windows) if low <= token)
        return offsets[window] + (token - windows[window][0]) * scale

    def extent(start: int, end: int) -> tuple[float, float]:
        return round(across(start), 2), round((end - start) * scale, 2)

    return {
        "title": "Positions in tokens: " + "; ".join(f"{one.name} {one.start + 1} to {one.end}" for one in spans),
        "lanes": [(span, *extent(span.start, span.end)) for span in spans],
        "windows": [(*extent(low, high), low + 1, high) for low, high in windows],
    }


def scatter(places: np.ndarray, labels: Sequence[int], shapes: int) -> list[tuple[float, float, int, bool]]:
    """Returns x, y, colour and whether it is a square for each point of a map, of shape (n, 2), in its own units.

    The n-th point of every map is the same text. Labels beyond ``shapes`` colours are squares.
    """
    low, high = places.min(axis=0), places.max(axis=0)
    side = float((high - low).max()) or 1.0
    scaled = ((places - (low + high) / 2) / side * (MAP - 14) + MAP / 2).round(1).tolist()
    return [
        (x, y, label % shapes, bool(label // shapes % 2)) for (x, y), label in zip(scaled, labels, strict=True)
    ]
