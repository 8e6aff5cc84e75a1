"""Coordinates of charts, on cases solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.comparison import charts
from analysis.comparison.charts import Curve, Span


def test_a_panel_covers_its_curves() -> None:
    curve = Curve("a", np.array([0.0, 100.0]), np.array([1.0, 3.0]), "gru")
    panel = charts.panel([curve])
    [(drawn, places)] = panel["curves"]
    assert drawn is curve and [x for x, _ in places] == [charts.LEFT, charts.WIDTH - charts.RIGHT]
    assert charts.HEIGHT - charts.BOTTOM > places[0][1] > places[1][1] > charts.TOP
    assert [label for _, label in panel["x_ticks"]] == ["0", "20", "40", "60", "80", "100"]
    assert "2" in [label for _, label in panel["y_ticks"]]


def test_a_panel_covers_a_chance_level_near_its_curves() -> None:
    curve = Curve("a", np.array([0.0, 100.0]), np.array([1.0, 3.0]), "gru")
    panel = charts.panel([curve], chance=4.0)
    [(_, places)] = panel["curves"]
    assert charts.TOP < panel["chance"] < places[1][1] and places[1][1] - panel["chance"] == pytest.approx(
        (places[0][1] - places[1][1]) / 2, abs=0.1
    )
    assert charts.panel([curve], chance=6.0) == charts.panel([curve])  # a distant level is left out


def test_a_curve_of_one_value_has_room() -> None:
    panel = charts.panel([Curve("a", np.zeros(1), np.ones(1), "gru", points=True)])
    assert np.isfinite(panel["curves"][0][1]).all()


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        pytest.param(2e-4, ["0.69315", "0.6932", "0.69325", "0.6933", "0.69335"], id="0.0002"),
        pytest.param(2e-3, ["0.6935", "0.694", "0.6945", "0.695"], id="0.002"),
        pytest.param(1e-8, ["0.693"], id="1e-08"),
    ],
)
def test_the_labels_of_a_flat_curve_differ(change: float, labels: list[str]) -> None:
    loss = np.array([0.69315, 0.69315 + change])
    panel = charts.panel([Curve("a", np.array([0.0, 100.0]), loss, "gru")])
    assert [label for _, label in panel["y_ticks"]] == labels


def test_a_span_chart_covers_the_surroundings_of_its_spans() -> None:
    """Shows the two spans of a text of 9,000 tokens, with 8 tokens on either side of them."""
    chart = charts.span_chart([Span("anchor", 4100, 4200, 0), Span("positive", 4150, 4250, 1)], 9000)
    assert chart["windows"] == [(0, 100, 4093, 4258)]
    lanes = {span.name: (left, width) for span, left, width in chart["lanes"]}
    assert lanes["anchor"] == (round(800 / 166, 2), round(10_000 / 166, 2))
    assert lanes["positive"][0] == pytest.approx(5800 / 166, abs=0.01)
    assert chart["title"] == "Positions in tokens: anchor 4101 to 4200; positive 4151 to 4250"


def test_text_between_distant_spans_is_left_out() -> None:
    chart = charts.span_chart([Span("b", 800, 900, 1), Span("a", 0, 100, 0)], 900)
    (first, width_of_first, first_token, last_token), (second, _, *other_tokens) = chart["windows"]
    assert (first_token, last_token) == (1, 108) and other_tokens == [793, 900]
    assert first == 0 and width_of_first == pytest.approx(47.5) and second == pytest.approx(47.5 + charts.BREAK)
    lanes = {span.name: (left, left + width) for span, left, width in chart["lanes"]}
    assert lanes["a"][0] == 0 and lanes["b"][1] == pytest.approx(100)


def test_many_distant_spans_fit_the_chart() -> None:
    chart = charts.span_chart([Span(f"span {n}", 1000 * n, 1000 * n + 10, 0) for n in range(40)], 50_000)
    assert all(left >= 0 and width > 0 and left + width <= 100.1 for _, left, width in chart["lanes"])


def test_a_map_fits_and_keeps_its_shape() -> None:
    places = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 5.0]])
    points = charts.scatter(places, [0, 8, 3], 7)
    assert [(colour, square) for _, _, colour, square in points] == [(0, False), (1, True), (3, False)]
    assert points[0][:2] == (7.0, 53.5) and points[1][:2] == (193.0, 53.5) and points[2][:2] == (7.0, 146.5)
