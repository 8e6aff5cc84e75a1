"""A figure as a YAML describes it: what is read, and each refusal in one line."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.figures.description import Mark, figure_from, in_order
from data.errors import UserError

FIGURE: dict[str, Any] = {
    "id": "declutr_v1/s1b",
    "title": "A memory bank",
    "kind": "line",
    "x": "queue size",
    "y": "average (%)",
    "groups": [0.001, 0.05],
    "ticks": ["none", 128],
}
GREATER = {"kind": "greater", "left": {"x": "none"}, "right": {"x": 128}}


def stated(check: Any, **more: Any) -> dict[str, Any]:
    return FIGURE | {"statements": [{"id": "a", "says": "so", "section": 5.2, "check": check, **more}]}


def test_numbers_become_names() -> None:
    figure = figure_from(stated(GREATER) | {"printed": [{"group": 0.05, "x": 128, "score": 75}]})
    assert figure.groups == ("0.001", "0.05") and figure.ticks == ("none", "128") and figure.panels == ("",)
    assert figure.printed == (Mark("", "0.05", "128", 75.0),)
    assert figure.name == "declutr_v1-s1b"
    [statement] = figure.statements
    assert statement.section == "5.2"
    assert statement.check == {"kind": "greater", "left": {"x": ("none",)}, "right": {"x": ("128",)}}


def test_order_is_the_figures_then_as_found() -> None:
    assert in_order(["b", "a", "c"], ["x", "a", "b", "x"]) == ["b", "a", "x"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, "A figure must be a mapping of keys. Got None instead."),
        ({"id": "a"}, "figure a lacks title, kind, x, y."),
        (FIGURE | {"group": []}, "figure declutr_v1/s1b has no key group; it has id, title"),
        (
            FIGURE | {"kind": "pie"},
            "kind must be one of line, distribution, bars, density, map. Got 'pie' instead.",
        ),
        (FIGURE | {"scale": "linear"}, "scale linear needs ticks that are numbers."),
        (FIGURE | {"groups": {"a": 1}}, "groups must be a list."),
        (FIGURE | {"ticks": [None]}, "ticks must be names or numbers. Got None instead."),
        (FIGURE | {"printed": [{"group": "a", "x": 1}]}, "printed lacks score."),
        (
            FIGURE | {"printed": [{"group": "a", "score": "7"}]},
            "score must be a number in percent. Got '7' instead.",
        ),
        (FIGURE | {"colours": ["a"]}, "colours must be a mapping."),
        (stated(None), "statement a has no check: give one, or the reason why it is not computed here."),
        (
            stated({"kind": "bigger"}),
            "statement a: the check's kind must be one of greater, all_greater, at_most, about_equal, rising, "
            "peak_inside, best, all. Got 'bigger' instead.",
        ),
        (stated("greater"), "a check must be a mapping with a kind. Got 'greater' instead."),
        (stated({"kind": "greater", "left": {}}), "check greater lacks right."),
        (
            stated(GREATER | {"of": {}}),
            "check greater has no key of; it has kind, left, right, margin, most, each.",
        ),
        (stated(GREATER | {"margin": "1"}), "margin must be a number of points, 0 or more. Got '1' instead."),
        (
            stated(GREATER | {"margin": 1, "most": 0.5}),
            "most must be a number of points above the margin. Got 0.5 instead.",
        ),
        (stated(GREATER | {"kind": "about_equal", "margin": 0}), "about_equal needs a margin above 0."),
        (stated(GREATER | {"each": "seed"}), "each must be one of panel, group, x. Got 'seed' instead."),
        (stated(GREATER | {"kind": "all_greater"}), "right must be a list."),
        (stated(GREATER | {"left": {"tick": 1}}), "a selector has no key tick; it has panel, group, x."),
        (stated(GREATER | {"left": {"x": 64}}), "statement a: there is no x '64'; there are none, 128."),
        (stated({"kind": "all", "of": [GREATER, {"kind": "no"}]}), "Got 'no' instead."),
        (
            stated({"kind": "all", "of": [GREATER | {"left": {"group": "tau"}}]}),
            "there is no group 'tau'; there are 0.001, 0.05.",
        ),
    ],
)
def test_faults_are_told_in_one_line(given: Any, line: str) -> None:
    with pytest.raises(UserError) as caught:
        figure_from(given)
    assert line in str(caught.value) and "\n" not in str(caught.value)
