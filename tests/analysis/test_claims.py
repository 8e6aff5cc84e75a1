"""Claims on invented scores: pairing, intervals, every comparison; and verdicts that may not change."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
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
    best,
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


@pytest.mark.parametrize(
    ("gain", "seeds", "outcome"),
    [
        (5.0, 4, "held"),
        (-5.0, 4, "not held"),
        (0.1, 4, "undecided at this size"),
        (5.0, 2, "undecided at this size"),
        (5.0, 1, "undecided at this size"),
    ],
)
def test_greater_needs_a_clear_gain_and_three_seeds(gain: float, seeds: int, outcome: str) -> None:
    assert verdict(curve([60, 60 + gain], seeds), two_above_one).outcome == outcome


def test_common_seeds_are_paired() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 6))
    rows = [("a", x, seed, value) for x, side in (("2", left), ("1", right)) for seed, value in enumerate(side)]
    [finding] = two_above_one(frame(*rows, ("a", "1", 9, 99.0)))
    expected = stats.ttest_1samp(left - right, 0).confidence_interval(0.95)
    np.testing.assert_allclose(finding.interval(ERROR), expected)
    assert finding.value == pytest.approx((left - right).mean())


def test_seeds_without_a_partner_are_left_out() -> None:
    rows = [("a", "2", seed, 61.0) for seed in range(4)] + [("a", "1", seed, 60.0) for seed in range(2, 6)]
    [finding] = two_above_one(frame(*rows))
    assert (finding.value, finding.seeds, finding.outcome) == (1, 2, "undecided at this size")


def test_settings_and_panels_of_one_seed_are_averaged() -> None:
    scores = curve([60, 61])
    more = scores.assign(panel="other", score=scores["score"] + 40 + 2 * (scores["x"] == "2"))
    assert two_above_one(pd.concat([scores, more]))[0].value == pytest.approx(two_above_one(scores)[0].value + 1)


@pytest.mark.parametrize(
    ("check", "gain", "outcome"),
    [
        (about_equal, 0.0, "held"),
        (about_equal, 3.0, "not held"),
        (about_equal, -3.0, "not held"),
        (about_equal, 1.0, "undecided at this size"),
        (at_most, -3.0, "held"),
        (at_most, 0.0, "held"),
        (at_most, 3.0, "not held"),
    ],
)
def test_margins(check: Callable[..., Check], gain: float, outcome: str) -> None:
    scores = curve([60, 60 + gain], seeds=5)
    assert verdict(scores, check("x == '2'", "x == '1'", margin=1.0)).outcome == outcome


def test_a_gain_may_be_larger_than_in_the_paper() -> None:
    scores = curve([60, 65], seeds=5)
    assert verdict(scores, greater("x == '2'", "x == '1'", most=1.0)).outcome == "not held"


def test_one_contrary_difference_refutes_several_by_a_wider_interval() -> None:
    scores = frame(
        *(("a", "1", seed, 0.0) for seed in range(3)),
        *(("a", "2", seed, value) for seed, value in enumerate((0.9, 1.0, 1.6))),
        *(("a", x, seed, value) for x in "345" for seed, value in enumerate((-5.0, -5.1, -5.2))),
    )
    one = verdict(scores, greater("x == '1'", "x == '2'"))
    four = verdict(scores, greater("x == '1'", "x != '1'", each="x"))
    assert (one.outcome, four.outcome) == ("not held", "undecided at this size")


def test_each_compares_at_every_label_and_with_a_level() -> None:
    scores = pd.concat([curve([60, 61, 62], group="a"), curve([50, 51, 52], group="b")])
    level = frame(*(("none", "", seed, 55.0 + seed) for seed in range(3)))
    assert len(greater("group == 'a'", "group == 'b'", each="x")(scores)) == 3
    both = pd.concat([scores, level])
    with_level = greater("group == 'a'", "group == 'none'", each="x")(both)
    np.testing.assert_allclose([finding.value for finding in with_level], [5, 6, 7], atol=0.4)
    assert len(greater("group == 'none'", "group == 'b'", each="x")(both)) == 3
    assert len(at_most("group == 'a' and x == '3'", "group == 'b' and x != '3'", each="x")(scores)) == 2


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ([60, 64, 68], "held"),
        ([68, 64, 60], "not held"),
        ([60, 70, 65], "not held"),
        ([60, 70, 69.9], "undecided at this size"),
    ],
)
def test_rising_requires_every_step(scores: list[float], outcome: str) -> None:
    assert verdict(curve(scores), rising("", "x", margin=0.5)).outcome == outcome


def test_peak_inside_compares_the_share_of_curves_with_chance() -> None:
    peak = peak_inside("", "x")
    curves = [curve([60, 63, 66, 63, 60], 5, str(number)) for number in range(4)]
    inside = verdict(pd.concat(curves), peak)
    assert inside.outcome == "held" and inside.evidence[0].value == 100
    low, high = inside.evidence[0].interval(ERROR)
    assert (low, high) == pytest.approx((100 * 0.025 ** (1 / 20), 100))
    assert verdict(curve([66, 63, 60, 63, 66], 5), peak).outcome == "not held"
    assert verdict(curve([60, 63], 5), peak).outcome == "not computed here"


def test_best_is_above_every_other_combination() -> None:
    scores = pd.concat([curve([60, 65], group="a"), curve([50, 52], group="b")])
    assert verdict(scores, best("group == 'a' and x == '2'", "x != ''", "group x")).outcome == "held"
    assert verdict(scores, best("group == 'b' and x == '2'", "x != ''", "group x")).outcome == "not held"
    assert verdict(scores, best("x == '2'", "group == 'b'", "x")).outcome == "held"


def test_a_claim_requires_every_check() -> None:
    contrary = verdict(curve([60, 65]), two_above_one, greater("x == '1'", "x == '2'"))
    assert contrary.outcome == "not held" and [finding.tests for finding in contrary.evidence] == [2, 2]


def test_claims_without_scores_are_not_computed() -> None:
    missing = verdict(curve([60]), greater("x == '9'", "x == '1'"))
    other = decide({"text (5)": "it needs other runs"}, curve([60]))[0]
    assert [missing.outcome, other.outcome] == ["not computed here"] * 2
    assert (missing.reason, other.reason) == ("no scores of x == '9'", "it needs other runs")


def test_pure_noise_is_decided_no_more_often_than_the_error_rate() -> None:
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        rows = [("a", x, seed, score) for x in "12" for seed, score in enumerate(rng.normal(size=4))]
        outcomes.append(verdict(frame(*rows), two_above_one).outcome)
    assert outcomes.count("held") + outcomes.count("not held") <= 32  # 20 are expected
