"""Colours that are distinguishable with red-green colour blindness (Machado et al. 2009, severity 1)."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.figures import style

COLOUR_VISION = {
    "all cones": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)
SINGLE_TASKS = [f"conssent_{task}" for task in "dpirnc"]


def lab(hue: str, vision: object) -> np.ndarray:
    """Returns the CIE L*a*b* coordinates of ``hue`` as seen with this colour vision."""
    encoded = np.array(to_rgb(hue))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(np.array(vision) @ linear, 0, 1) / WHITE
    fx, fy, fz = (np.cbrt(t) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def smallest_distance(hues: Collection[str], vision: object) -> float:
    perceived = [lab(hue, vision) for hue in hues]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(perceived, 2))


@pytest.mark.parametrize("vision", COLOUR_VISION)
@pytest.mark.parametrize(
    "group",
    [
        [style.ACCENT, *(hue for name, hue in style.OBJECTIVES.items() if name not in SINGLE_TASKS)],
        [style.OBJECTIVES[name] for name in ("conssent_mt", *SINGLE_TASKS)] + [style.OTHER],
        style.SERIES,
        style.ramp(5),
    ],
    ids=["objectives", "ConsSent's tasks", "series", "ramp"],
)
def test_colours_are_distinguishable_with_colour_blindness(group: list[str], vision: str) -> None:
    assert smallest_distance(group, COLOUR_VISION[vision]) > 10  # 2.3 is a just noticeable difference


def test_indistinguishable_colours_are_detected() -> None:
    assert (
        smallest_distance(["#D62728", "#7A6A00"], COLOUR_VISION["protanopia"])
        < 30
        < smallest_distance(["#D62728", "#7A6A00"], COLOUR_VISION["all cones"])
    )


def test_colours_have_enough_contrast_on_white() -> None:
    for hue in (*style.OBJECTIVES.values(), style.OTHER, *style.SERIES):
        assert lab(hue, np.eye(3))[0] < 80


@pytest.mark.parametrize(
    ("value", "text"), [(2.5e6, "2.5M"), (400_000, "400k"), (0.5, "0.5"), (3e9, "3G"), (4e-5, "4e-5")]
)
def test_large_numbers_are_abbreviated(value: float, text: str) -> None:
    assert style.short(value) == text
