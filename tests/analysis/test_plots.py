"""Pictures of scores: colours, panels, printed values, files."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from analysis import plots

# Machado et al. 2009, severity 1.
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
)
PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
SINGLE_TASKS = [f"conssent_{task}" for task in "dpirnc"]
LABELS: dict[str, Any] = {"x": "k", "hue": "task", "title": "Title", "xlabel": "k", "ylabel": "score, %"}


def lab(hue: str, vision: np.ndarray) -> np.ndarray:
    """Returns the CIE L*a*b* coordinates of ``hue`` as seen with this colour vision."""
    encoded = np.array(to_rgb(hue))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    t = TO_XYZ @ np.clip(vision @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(
    "hues",
    [
        [plots.ACCENT, *(hue for name, hue in plots.OBJECTIVES.items() if name not in SINGLE_TASKS)],
        [plots.OBJECTIVES[name] for name in ("conssent_mt", *SINGLE_TASKS)] + [plots.OTHER],
        plots.SERIES,
    ],
    ids=["objectives", "ConsSent's tasks", "series"],
)
def test_colours_are_distinguishable_with_colour_blindness(hues: Collection[str]) -> None:
    for vision in (np.eye(3), DEUTERANOPIA, PROTANOPIA):
        seen = [lab(hue, vision) for hue in hues]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 10  # 2.3 is just noticeable
    assert all(lab(hue, np.eye(3))[0] < 80 for hue in hues)  # contrast on white


def scores(panels: tuple[str, ...] = ("TREC", "MRPC")) -> pd.DataFrame:
    axes = product(panels, ("ConsSent-D", "ConsSent-P"), ("10", "2", "1"), range(3))
    frame = pd.DataFrame(axes, columns=["panel", "task", "k", "seed"])
    return frame.assign(score=70 + np.random.default_rng(0).normal(size=len(frame)), run="")


def test_every_score_is_shown_in_its_panel() -> None:
    frame = pd.concat([scores().assign(k=""), scores()])  # "": a start, which has no place on the axis
    figure = plots.lines(frame, **LABELS)
    marks = [line for axes in figure.get_axes() for line in axes.lines if line.get_marker() not in ("None", "_")]
    assert {*frame["score"]} <= {value for line in marks for value in np.ravel(line.get_ydata())}
    panels = [axes for axes in figure.get_axes() if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["TREC", "MRPC"]
    assert [text.get_text() for text in panels[0].get_xticklabels()] == ["1", "2", "10"]


@pytest.mark.parametrize("value", [70.5, 90.0])
def test_printed_values_are_open_marks_near_ours_or_on_their_own_scale(value: float) -> None:
    printed = pd.DataFrame({"panel": ["TREC"], "task": "ConsSent-P", "k": "2", "score": value})
    figure = plots.lines(scores(), printed=printed, **LABELS)
    places = [axes for axes in figure.get_axes() for child in [axes, *axes.child_axes] for line in child.lines
              if line.get_markerfacecolor() == "white" and [*np.ravel(line.get_ydata())] == [value]]  # fmt: skip
    assert len(places) == 1 and bool(places[0].child_axes) == (value == 90.0)


def test_files_are_written_and_equal_for_equal_scores(tmp_path: Path) -> None:
    frame = scores()
    for folder in "ab":
        paths = plots.save(plots.lines(frame, **LABELS, note="A note."), tmp_path / folder / "x.y", frame)
        assert [path.name for path in paths] == ["x.y.pdf", "x.y.png", "x.y.csv"]
    assert all((tmp_path / "a" / path.name).read_bytes() == path.read_bytes() for path in paths)
    pd.testing.assert_frame_equal(pd.read_csv(paths[2], dtype={"k": str}, keep_default_na=False), frame)
