"""Pictures of scores: colours, marks, panels, files."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis import plots

# Machado et al. 2009, severity 1.
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
SINGLE_TASKS = [f"conssent_{task}" for task in "dpirnc"]
LABELS: dict[str, Any] = {"x": "k", "hue": "task", "title": "Title", "xlabel": "k", "ylabel": "score, %"}


def lab(hue: str, vision: object) -> np.ndarray:
    """Returns the CIE L*a*b* coordinates of ``hue`` as seen with this colour vision."""
    encoded = np.array(to_rgb(hue))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(np.array(vision) @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    fx, fy, fz = (np.cbrt(t) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("vision", COLOUR_VISION)
@pytest.mark.parametrize(
    "hues",
    [
        [plots.ACCENT, *(hue for name, hue in plots.OBJECTIVES.items() if name not in SINGLE_TASKS)],
        [plots.OBJECTIVES[name] for name in ("conssent_mt", *SINGLE_TASKS)] + [plots.OTHER],
        plots.SERIES,
    ],
    ids=["objectives", "ConsSent's tasks", "series"],
)
def test_colours_are_distinguishable_with_colour_blindness(hues: Collection[str], vision: str) -> None:
    seen = [lab(hue, COLOUR_VISION[vision]) for hue in hues]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 10  # 2.3 is just noticeable
    assert all(lab(hue, np.eye(3))[0] < 80 for hue in hues)  # contrast on white


def test_names_have_the_colour_of_their_objective_and_differ() -> None:
    names = ["MLM only", "ConsSent-D", "none", "linear", "the start"]
    styles = plots.mark_styles(names, {"MLM only": "mlm_only"})
    assert styles["MLM only"]["color"] == plots.colour("mlm_only")
    assert styles["ConsSent-D"]["color"] == plots.OBJECTIVES["conssent_d"]
    assert styles["the start"]["color"] == plots.OTHER == plots.colour("unknown")
    assert len({style["marker"] for style in styles.values()}) == 5
    hues = {style["color"] for style in plots.mark_styles(["none", "linear"], {}).values()}
    assert len(hues) == 2 and plots.OTHER not in hues


def scores(seeds: int = 3, panels: tuple[str, ...] = ("TREC", "MRPC")) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (panel, task, k, seed, 70 + rng.normal())
        for panel in panels
        for task in ("ConsSent-D", "ConsSent-P")
        for k in ("10", "2", "1")
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["panel", "task", "k", "seed", "score"]).assign(run="")


def shown(figure: Figure) -> set[float]:
    """Returns the y values of all marks."""
    lines = [line for axes in figure.get_axes() for line in axes.lines if line.get_marker() not in ("None", "_")]
    return {round(float(value), 6) for line in lines for value in np.atleast_1d(line.get_ydata())}


@pytest.mark.parametrize("seeds", [1, 5])
def test_every_score_is_shown_in_its_panel(seeds: int) -> None:
    frame = scores(seeds)
    figure = plots.lines(frame, **LABELS)
    assert set(frame["score"].round(6)) <= shown(figure)
    panels = [axes for axes in figure.get_axes() if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["TREC", "MRPC"]
    assert [text.get_text() for text in panels[0].get_xticklabels()] == ["1", "2", "10"]


def test_places_may_stand_at_their_numbers() -> None:
    [axes] = plots.lines(scores(panels=("",)), **LABELS, linear=True).get_axes()
    assert [float(place) for place in axes.get_xticks()] == [1, 2, 10]


@pytest.mark.parametrize("value", [70.5, 90.0])
def test_printed_values_are_open_marks_near_ours_or_on_their_own_scale(value: float) -> None:
    printed = pd.DataFrame({"panel": ["TREC"], "task": "ConsSent-P", "k": "2", "score": value})
    figure = plots.lines(scores(), printed=printed, **LABELS)
    places = [axes for axes in figure.get_axes() for child in [axes, *axes.child_axes] for line in child.lines
              if line.get_markerfacecolor() == "white" and [*np.ravel(line.get_ydata())] == [value]]  # fmt: skip
    assert len(places) == 1 and bool(places[0].child_axes) == (value == 90.0)


def test_scores_without_a_place_are_a_level() -> None:
    level = pd.DataFrame({"panel": "", "task": "none", "k": "", "seed": [0, 1], "score": [60.0, 62.0], "run": ""})
    [axes] = plots.lines(pd.concat([scores(panels=("",)), level]), **LABELS).get_axes()
    assert [61.0, 61.0] in [[*np.ravel(line.get_ydata())] for line in axes.lines]


def test_files_are_written_and_equal_for_equal_scores(tmp_path: Path) -> None:
    frame = scores()
    for folder in "ab":
        paths = plots.save(plots.lines(frame, **LABELS, note="A note."), tmp_path / folder / "x.y", frame)
        assert [path.name for path in paths] == ["x.y.pdf", "x.y.png", "x.y.csv"]
    assert all((tmp_path / "a" / path.name).read_bytes() == path.read_bytes() for path in paths)
    pd.testing.assert_frame_equal(pd.read_csv(paths[2], dtype={"k": str}, keep_default_na=False), frame)
