"""Scores and selections of them."""

from __future__ import annotations

import pytest

from analysis.figures.scores import NoScoresError, Point, Scores, in_order

POINTS = [
    Point("", group, x, 1, score)
    for group, x, score in (("b", "2", 1.0), ("a", "1", 2.0), ("a", "2", 3.0), ("none", "", 4.0))
]
SCORES = Scores(POINTS, groups=["a", "b", "c", "none"], ticks=["1", "2"])


def test_scores_are_in_the_figures_order_then_in_the_order_found() -> None:
    assert in_order(["b", "a", "c"], ["x", "a", "b", "x"]) == ["b", "a", "x"]


def test_a_selection_has_the_scores_of_its_names() -> None:
    assert [point.score for point in SCORES(group=["a", "b"], x="2").points] == [1.0, 3.0]
    assert SCORES().points == POINTS
    assert SCORES(group=["b", "a"]).names("group") == ["a", "b"]
    assert SCORES(group="a").at(x="1").points == [POINTS[1]]
    assert SCORES(group="none").is_level and not SCORES().is_level


def test_a_selection_is_named_after_its_labels() -> None:
    names = [str(SCORES(group="a", x="1")), str(SCORES(group=["a", "b"])), str(SCORES(x="2")), str(SCORES())]
    assert names == ["a at 1", "a, b", "2", "everything"]


def test_labels_without_scores_are_reported_as_missing() -> None:
    assert SCORES(group=["a", "c"]).missing == [("group", "c")]
    with pytest.raises(NoScoresError, match=r"^c$"):
        _ = SCORES(group="c").points


def test_a_label_that_the_figure_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"There is no x '64'; there are 1, 2\."):
        SCORES(x="64")
