"""Claims on invented scores: pairing, intervals, outcomes; and verdicts that may not change."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.bootstrap import ERROR
from analysis.claims import (
    Check,
    Verdict,
    about_equal,
    at_most,
    decide,
    greater,
    peak_inside,
    rising,
)
from analysis.papers import CATALOGUE

VERDICTS = json.loads((Path(__file__).parents[1] / "fixtures" / "verdicts.json").read_text())
NOISE = (0.0, 0.3, -0.2, 0.1, -0.15)


def frame(*rows: tuple[str, str, int, float], panel: str = "") -> pd.DataFrame:
    """Returns the long frame of rows of group, x, seed and score."""
    return pd.DataFrame(rows, columns=["group", "x", "seed", "score"]).assign(panel=panel, run="")


def curve(scores: Sequence[float], seeds: int = 3, group: str = "a") -> pd.DataFrame:
    """Returns a score for each place 1, 2, ... and seed; gains differ a little by seed."""
    places = enumerate(scores)
    rows = [
        (group, str(i + 1), s, score + s + NOISE[(i + 2 * s) % 5]) for i, score in places for s in range(seeds)
    ]
    return frame(*rows)


def verdict(scores: pd.DataFrame, *checks: Check) -> Verdict:
    return decide({"text (5)": checks}, scores)[0]


two_above_one = greater("x == '2'", "x == '1'")


@pytest.mark.parametrize("figure", VERDICTS)
def test_verdicts_values_and_intervals_stay(figure: str) -> None:
    record = VERDICTS[figure]
    scores = pd.DataFrame(record["scores"], columns=[*record["axes"], "score"])
    scores["seed"] = [list(range(len(values))) for values in scores["score"]]
    scores = scores.explode(["score", "seed"], ignore_index=True).assign(run="").astype({"score": float})
    if "panel" not in scores:
        scores["panel"] = ""
    for new, (outcome, findings) in zip(decide(CATALOGUE[figure].claims, scores), record["verdicts"], strict=True):
        assert new.outcome == outcome
        numbers = sorted(([one.value, *one.interval(ERROR)] for one in new.evidence), key=str)
        expected = [[math.inf if number is None else number for number in finding] for finding in findings]
        np.testing.assert_allclose(numbers, sorted(expected, key=str), atol=1e-8)


UNDECIDED = "undecided at this size"
SIMILAR = about_equal("x == '2'", "x == '1'", margin=1.0)
NOT_ABOVE = at_most("x == '2'", "x == '1'", margin=1.0)
RISING = rising("", "x", margin=0.5)
PEAK = peak_inside("", "x")


@pytest.mark.parametrize(
    ("checks", "scores", "seeds", "outcome"),
    [
        (two_above_one, [60, 65], 4, "held"),
        (two_above_one, [60, 55], 4, "not held"),
        (two_above_one, [60, 60.1], 4, UNDECIDED),
        (two_above_one, [60, 65], 2, UNDECIDED),
        (greater("x == '2'", "x == '1'", most=1.0), [60, 65], 5, "not held"),  # more than in the paper
        (SIMILAR, [60, 60], 5, "held"),
        (SIMILAR, [60, 63], 5, "not held"),
        (SIMILAR, [60, 61], 5, UNDECIDED),
        (NOT_ABOVE, [60, 60], 5, "held"),
        (NOT_ABOVE, [60, 63], 5, "not held"),
        (RISING, [60, 64, 68], 3, "held"),
        (RISING, [60, 70, 65], 3, "not held"),
        (RISING, [60, 70, 69.9], 3, UNDECIDED),
        (PEAK, [66, 63, 60, 63, 66], 5, "not held"),
        (PEAK, [60, 63], 5, "not computed here"),
        ([two_above_one, greater("x == '1'", "x == '2'")], [60, 65], 3, "not held"),  # every check is required
        (greater("x == '9'", "x == '1'"), [60], 3, "not computed here"),
        ("it needs other runs", [60], 3, "not computed here"),
    ],
)
def test_outcomes(checks: Check | list[Check] | str, scores: list[float], seeds: int, outcome: str) -> None:
    checks = [checks] if callable(checks) else checks
    assert decide({"text (5)": checks}, curve(scores, seeds))[0].outcome == outcome


def test_common_seeds_are_paired() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 6))
    rows = [("a", x, seed, value) for x, side in (("2", left), ("1", right)) for seed, value in enumerate(side)]
    [finding] = two_above_one(frame(*rows, ("a", "1", 9, 99.0)))
    expected = stats.ttest_1samp(left - right, 0).confidence_interval(0.95)
    np.testing.assert_allclose(finding.interval(ERROR), expected)
    assert finding.value == pytest.approx((left - right).mean())


def test_a_curve_that_peaks_inside_in_one_of_two_panels_counts_half() -> None:
    panels = [curve([60, 66, 60]).assign(panel="a"), curve([66, 60, 60]).assign(panel="b")]
    (finding,) = PEAK(pd.concat(panels, ignore_index=True))
    assert finding.value == 50


def test_peak_inside_compares_the_share_of_curves_with_chance() -> None:
    curves = [curve([60, 63, 66, 63, 60], 5, str(number)) for number in range(4)]
    inside = verdict(pd.concat(curves), PEAK)
    assert inside.outcome == "held" and inside.evidence[0].value == 100
    low, high = inside.evidence[0].interval(ERROR)
    assert (low, high) == pytest.approx((100 * 0.025 ** (1 / 20), 100))


def test_pure_noise_is_decided_no_more_often_than_the_error_rate() -> None:
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        rows = [("a", x, seed, score) for x in "12" for seed, score in enumerate(rng.normal(size=4))]
        outcomes.append(verdict(frame(*rows), two_above_one).outcome)
    assert outcomes.count("held") + outcomes.count("not held") <= 32  # 20 are expected
