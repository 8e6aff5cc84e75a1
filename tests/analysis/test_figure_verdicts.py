"""Statements judged on hand-made scores: clear, contrary, too few; pairing, intervals, and each kind of check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.figures.description import Figure, Point, figure_from
from analysis.figures.verdicts import Verdict, judge

TICKS = ["1", "2", "3", "4", "5"]
NOISE = (0.0, 0.3, -0.2, 0.1, -0.15)


def figure(check: Any, **more: Any) -> Figure:
    statement = {"id": "a", "says": "so", "section": "5", "check": check, "reason": "it needs other runs"}
    given = {"id": "p/1", "title": "t", "kind": "line", "x": "x", "y": "y", "ticks": TICKS}
    return figure_from(given | {"statements": [statement]} | more)


def verdict(check: Any, points: Sequence[Point]) -> Verdict:
    [found] = judge(figure(check), points)
    return found


def curve(scores: Sequence[float], seeds: int = 3, group: str = "a", panel: str = "") -> list[Point]:
    """A score a tick and seed, with small differences between seeds at each tick."""
    return [
        Point(panel, group, x, seed, score + seed + NOISE[(i + 2 * seed) % 5])
        for i, (x, score) in enumerate(zip(TICKS, scores, strict=False))
        for seed in range(seeds)
    ]


def sides(x: str, y: str) -> dict[str, Any]:
    return {"left": {"x": x}, "right": {"x": y}}


@pytest.mark.parametrize(
    ("gain", "seeds", "outcome"),
    [
        (5.0, 4, "held"),
        (-5.0, 4, "not held"),
        (0.1, 4, "undecided at this size"),
        (5.0, 2, "undecided at this size"),  # too few to tell at all
        (5.0, 1, "undecided at this size"),
    ],
)
def test_greater(gain: float, seeds: int, outcome: str) -> None:
    assert verdict({"kind": "greater", **sides("2", "1")}, curve([50, 50 + gain], seeds)).outcome == outcome


def test_the_interval_is_that_of_the_paired_differences() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(50, 10, size=6)  # seeds differ far more than the two sides
    gains = rng.normal(1, 0.5, size=6)
    points = [
        Point("", "a", x, seed, score)
        for x, scores in (("1", base), ("2", base + gains))
        for seed, score in enumerate(scores)
    ]
    found = verdict({"kind": "greater", **sides("2", "1")}, [points[i] for i in rng.permutation(12)])
    [finding] = found.findings
    low, high = stats.ttest_1samp(gains, 0).confidence_interval()
    assert finding.value == pytest.approx(gains.mean())
    assert (finding.low, finding.high) == pytest.approx((low, high))
    assert (finding.n, finding.of, found.outcome, finding.what) == (6, "seeds", "held", "2 − 1")


def test_only_what_both_sides_have_is_paired() -> None:
    points = [*curve([50, 52], seeds=3), Point("", "a", "2", 9, 90.0, "another setting")]
    [finding] = verdict({"kind": "greater", **sides("2", "1")}, points).findings
    assert finding.n == 3 and finding.high < 10


def test_scores_of_one_pair_are_averaged() -> None:
    points = [Point("", "a", "1", s, 50.0) for s in range(3)] + [
        Point("", "a", "2", s, 52 + s / 10 + d) for s in range(3) for d in (-1, 1)
    ]
    [finding] = verdict({"kind": "greater", **sides("2", "1")}, points).findings
    assert finding.n == 3 and finding.value == pytest.approx(2.1)
    assert finding.low == pytest.approx(stats.ttest_1samp([2, 2.1, 2.2], 0).confidence_interval()[0])


def test_settings_of_one_seed_are_averaged() -> None:
    def pairs(seeds: int) -> list[Point]:
        """One side is ahead by as much as the number of the seed, whatever the setting."""
        return [
            Point("", "a", x, seed, 50 + (x == "2") * (seed + 1) + 5 * setting, f"tau={setting}")
            for x in ("1", "2")
            for seed in range(seeds)
            for setting in range(6)
        ]

    check = {"kind": "greater", **sides("2", "1")}
    few = verdict(check, pairs(2))
    low, high = stats.ttest_1samp([1, 2], 0).confidence_interval()
    assert few.findings[0][1:4] == pytest.approx((1.5, low, high)) and few.outcome == "undecided at this size"
    [found] = verdict(check, pairs(3)).findings
    low, high = stats.ttest_1samp([1, 2, 3], 0).confidence_interval()
    assert (found.n, found.of) == (3, "seeds")
    assert (found.value, found.low, found.high) == pytest.approx((2, low, high))
    apart = [point._replace(seed=point.seed + 10 * (point.x == "2")) for point in pairs(3)]
    [found] = verdict(check, apart).findings
    low, high = stats.ttest_ind([1, 2, 3], [0, 0, 0], equal_var=False).confidence_interval()
    assert (found.n, found.low, found.high) == pytest.approx((3, low, high))


def test_sides_without_common_seeds_get_welchs_interval() -> None:
    a, b = [50.0, 50.4, 50.1, 49.7], [51.0, 51.9, 51.2]
    points = [Point("", "a", "1", i, score) for i, score in enumerate(a)]
    points += [Point("", "a", "2", 10 + i, score) for i, score in enumerate(b)]
    [finding] = verdict({"kind": "greater", **sides("2", "1")}, points).findings
    low, high = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert (finding.low, finding.high) == pytest.approx((low, high))
    assert (finding.n, finding.of) == (3, "seeds a side, unpaired")


def test_what_few_common_seeds_cannot_decide_all_of_them_may() -> None:
    points = [Point("", "a", "1", i, 50 + i / 10) for i in range(5)]
    points += [Point("", "a", "2", i + 3, 60 + i / 10) for i in range(5)]  # two in common
    found = verdict({"kind": "greater", **sides("2", "1")}, points)
    assert (found.outcome, found.seeds, found.findings[0].of) == ("held", 5, "seeds a side, unpaired")


def test_a_rise_with_a_step_of_too_few_seeds_is_undecided() -> None:
    points = [point for point in curve([50, 55, 60]) if (point.x, point.seed) != ("2", 2)]
    assert verdict({"kind": "rising", "of": {}}, points).outcome == "undecided at this size"


def test_one_score_a_side_has_no_interval() -> None:
    points = [Point("", "a", "1", 1, 50.0), Point("", "a", "2", 2, 60.0)]
    found = verdict({"kind": "greater", **sides("2", "1")}, points)
    assert found.outcome == "undecided at this size"
    assert found.findings[0].value == 10 and found.findings[0].high == np.inf


def test_a_margin_is_asked_for() -> None:
    points = curve([50, 52], seeds=5)
    assert verdict({"kind": "greater", **sides("2", "1"), "margin": 1}, points).outcome == "held"
    assert verdict({"kind": "greater", **sides("2", "1"), "margin": 4}, points).outcome == "not held"
    assert verdict({"kind": "at_most", **sides("2", "1"), "margin": 4}, points).outcome == "held"
    assert verdict({"kind": "at_most", **sides("2", "1")}, points).outcome == "not held"


@pytest.mark.parametrize(
    ("gain", "outcome"), [(0.5, "held"), (2.0, "not held"), (-0.5, "not held"), (1.0, "undecided at this size")]
)
def test_a_difference_may_be_larger_than_the_paper_says(gain: float, outcome: str) -> None:
    points = [
        p._replace(score=50 + (p.x == "2") * gain + (p.seed - 2) / 100 * (p.x == "2"))
        for p in curve([0, 0], seeds=5)
    ]
    found = verdict({"kind": "greater", **sides("2", "1"), "most": 1.0}, points)
    assert found.outcome == outcome
    assert found.findings[0].asked == "above 0, at most the paper's 1"


def test_findings_tell_what_is_asked_of_them() -> None:
    points = curve([50, 52, 54], seeds=5)
    asked = {
        "above 0.5 (a margin of ours)": {"kind": "greater", **sides("2", "1"), "margin": 0.5},
        "at most 0": {"kind": "at_most", **sides("2", "1")},
        "within 0.5 (a margin of ours) either way": {"kind": "about_equal", **sides("2", "1"), "margin": 0.5},
        "above 33": {"kind": "peak_inside", "of": {}},
    }
    for words, check in asked.items():
        assert [finding.asked for finding in verdict(check, points).findings] == [words]
    rising = verdict({"kind": "rising", "of": {}}, points).findings
    assert [one.asked for one in rising] == ["above 0", *["no clear step down, and none by more than 0"] * 2]
    rising = verdict({"kind": "rising", "of": {}, "margin": 0.5}, points).findings
    assert rising[1].asked == "no clear step down, and none by more than 0.5 (a margin of ours)"


def test_of_how_many_seeds_a_verdict_is() -> None:
    check = {"kind": "greater", **sides("2", "1")}

    def found(seeds: int, apart: int = 0) -> Verdict:
        points = [p for i in range(4) for p in curve([50, 60], seeds, group=f"g{i}")]
        return verdict(check, [p._replace(seed=p.seed + apart * (p.x == "2")) for p in points])

    assert [(found(seeds).outcome, found(seeds).seeds) for seeds in (1, 2, 3)] == [
        ("undecided at this size", 1),
        ("undecided at this size", 2),
        ("held", 3),
    ]
    assert [found(seeds, apart=10).seeds for seeds in (1, 2, 3)] == [1, 2, 3]
    peak = {"kind": "peak_inside", "of": {}}
    assert verdict(peak, curve([50, 60, 50], seeds=2)).seeds == 2


@pytest.mark.parametrize(
    ("gain", "margin", "outcome"),
    [
        (0.0, 1, "held"),
        (0.0, 0.05, "undecided at this size"),
        (3.0, 1, "not held"),
        (-3.0, 1, "not held"),
        (1.0, 1, "undecided at this size"),
    ],
)
def test_about_equal(gain: float, margin: float, outcome: str) -> None:
    check = {"kind": "about_equal", **sides("2", "1"), "margin": margin}
    assert verdict(check, curve([50, 50 + gain], seeds=5)).outcome == outcome


def test_all_greater_needs_each_and_one_contrary_is_enough() -> None:
    check = {"kind": "all_greater", "left": {"x": "3"}, "right": [{"x": "1"}, {"x": "2"}]}
    assert verdict(check, curve([50, 51, 55], seeds=5)).outcome == "held"
    assert verdict(check, curve([50, 55, 55], seeds=5)).outcome == "undecided at this size"
    assert verdict(check, curve([50, 60, 55], seeds=5)).outcome == "not held"


def test_what_is_contrary_among_several_is_held_to_a_wider_interval() -> None:
    many = {"kind": "all_greater", "left": {"x": "1"}, "right": [{"x": x} for x in TICKS[1:]]}
    [first, *_] = verdict(many, curve([50] * 5, seeds=4)).findings
    [alone] = verdict({"kind": "greater", **sides("1", "2")}, curve([50] * 5, seeds=4)).findings
    assert (first.low, first.high) == (alone.low, alone.high) == (alone.lowest, alone.highest)
    reach = stats.t.ppf(1 - 0.05 / 4 / 2, 3) / stats.t.ppf(0.975, 3) * (first.high - first.value)
    assert first.highest == pytest.approx(first.value + reach)


def test_each_compares_at_every_place() -> None:
    points = curve([51, 52, 60], group="a", seeds=5) + curve([50, 50, 65], group="b", seeds=5)
    pair = {"kind": "greater", "left": {"group": "a"}, "right": {"group": "b"}}
    assert verdict(pair, points).findings[0].n == 5
    each = verdict(pair | {"each": "x"}, points)
    assert [finding.what for finding in each.findings] == ["1: a − b", "2: a − b", "3: a − b"]
    assert each.outcome == "not held"


def test_each_against_a_level_and_over_the_right_side() -> None:
    level = [Point("", "none", "", seed, 49.0 + seed) for seed in range(5)]
    points = curve([51, 52, 53], group="a", seeds=5) + level
    against = {"kind": "greater", "left": {"group": "a"}, "right": {"group": "none", "x": ""}, "each": "x"}
    found = verdict(against, points)
    assert [finding.what for finding in found.findings] == ["a at 1 − none", "a at 2 − none", "a at 3 − none"]
    assert found.outcome == "held"
    unnamed = {"kind": "greater", "left": {"group": "a"}, "right": {"group": "none"}}
    assert verdict(unnamed | {"each": "x"}, points).findings == found.findings
    assert verdict(unnamed, points).findings[0].n == 5
    turned = verdict({"kind": "at_most", "left": {"group": "none"}, "right": {"group": "a"}, "each": "x"}, points)
    assert [finding.what for finding in turned.findings] == ["none − a at 1", "none − a at 2", "none − a at 3"]
    assert turned.outcome == "held"
    several = {"left": {"group": "a", "x": "3"}, "right": {"group": "a", "x": ["1", "2"]}}
    right = {"kind": "greater", **several, "each": "x"}
    assert [finding.what for finding in verdict(right, points).findings] == ["a: 3 − 1", "a: 3 − 2"]


@pytest.mark.parametrize(
    ("scores", "seeds", "margin", "outcome"),
    [
        ([50, 52, 54, 56, 58], 4, 0, "held"),
        ([50, 52, 51.8, 56, 58], 4, 0, "undecided at this size"),  # a step down, not a clear one
        ([50, 52, 52.1, 56, 58], 4, 0, "undecided at this size"),  # a step up, not a clear one
        ([50, 52, 52.1, 56, 58], 4, 1, "held"),
        ([50, 56, 51, 57, 58], 4, 0, "not held"),  # a clear step down
        ([50, 56, 54, 57, 58], 4, 3, "not held"),  # below the margin, but clear
        ([58, 56, 54, 52, 50], 4, 0, "not held"),
        ([50, 52, 54, 56, 58], 1, 0, "undecided at this size"),
    ],
)
def test_rising(scores: list[float], seeds: int, margin: float, outcome: str) -> None:
    check = {"kind": "rising", "of": {"group": "a"}, "margin": margin}
    assert verdict(check, curve(scores, seeds)).outcome == outcome


def test_peak_inside_counts_curves_against_what_none_would_give() -> None:
    inside, edge = [50, 55, 58, 55, 50], [60, 55, 54, 53, 52]
    check = {"kind": "peak_inside", "of": {}}

    def many(shape: Sequence[float], curves: int) -> list[Point]:
        return [point._replace(seed=i) for i in range(curves) for point in curve(shape, seeds=1)]

    found = verdict(check, many(inside, 10))
    assert found.outcome == "held"
    low = stats.binomtest(10, 10).proportion_ci(0.95, "exact").low
    assert found.findings[0].low == pytest.approx(100 * low) and found.findings[0].high == 100
    assert "60 % without any trend" in found.findings[0].what
    assert verdict(check, many(edge, 10)).outcome == "not held"
    assert verdict(check, many(inside, 3)).outcome == "undecided at this size"
    one_seed = [p._replace(group=f"g{p.seed}", seed=1) for p in many(inside, 10)]
    assert verdict(check, one_seed).outcome == "undecided at this size"
    assert verdict(check, one_seed).findings[0].low == 0  # curves of one seed may go together


def test_seeds_that_differ_widen_the_share_of_curves() -> None:
    inside, edge = [50, 58, 50], [60, 54, 53]

    def points(seeds: int) -> list[Point]:
        shapes = {"a": inside, "b": inside, "c": inside, "d": edge}
        return [p for group, shape in shapes.items() for p in curve(shape, seeds, group=group)]

    check = {"kind": "peak_inside", "of": {}}
    for seeds in (2, 3, 4):  # of each three of four
        [found] = verdict(check, points(seeds)).findings
        assert (found.n, found.of, found.value) == (4 * seeds, "curves", 75.0)
        interval = stats.binomtest(3 * seeds, 4 * seeds).proportion_ci(0.95, "exact")
        assert (found.low, found.high) == pytest.approx((100 * interval.low, 100 * interval.high))
    uneven = [p._replace(score=100.0) if p.seed == 1 and p.x == "1" else p for p in points(4)]
    assert len({p.seed for p in uneven}) == 4
    [found] = verdict(check, uneven).findings  # of one seed none, of the others three of four
    reach = stats.t.ppf(0.975, 3) * np.std([0, 75, 75, 75], ddof=1) / 2
    assert found.value == pytest.approx(56.25)
    assert (found.low, found.high) == pytest.approx((max(0, 56.25 - reach), min(100, 56.25 + reach)))


def test_three_seeds_whose_curves_all_peak_inside_are_enough() -> None:
    points = [p for group in "abcd" for p in curve([50, 58, 50], 3, group=group)]
    assert verdict({"kind": "peak_inside", "of": {}}, points).outcome == "held"


def test_what_both_sides_name_alike_is_compared_pair_by_pair() -> None:
    points = [p for n, group in enumerate("abcd") for p in curve([50 + 9 * n, 51 + 9 * n], 3, group=group)]
    groups = {"group": list("abcd")}
    named = {"kind": "greater", "left": {"x": "2"} | groups, "right": {"x": "1"} | groups}
    [partly] = verdict(named, points[:-1]).findings  # a group and seed without its partner is left out
    assert partly.n == 3 and abs(partly.value - 1) < 1
    assert verdict(named, points).outcome == "held"


def test_panels_of_one_encoder_are_one_curve() -> None:
    shape = [50, 55, 58, 55, 50]
    points = [p for i in range(4) for panel in "xy" for p in curve(shape, seeds=1, group=f"g{i}", panel=panel)]
    assert verdict({"kind": "peak_inside", "of": {}}, points).findings[0].n == 4


def test_best() -> None:
    points = curve([50, 55, 51], group="a", seeds=5) + curve([48, 49, 47], group="b", seeds=5)
    check = {"kind": "best", "of": {"group": ["a", "b"]}, "at": {"group": "a", "x": "2"}}
    found = verdict(check, points)
    assert found.outcome == "held" and len(found.findings) == 5
    assert verdict(check | {"at": {"group": "b", "x": "2"}}, points).outcome == "not held"
    whole = verdict(check | {"at": {"group": "a"}}, points)  # its mean over x against each of the others
    assert len(whole.findings) == 3


def test_all_joins_checks() -> None:
    up, down = {"kind": "greater", **sides("2", "1")}, {"kind": "greater", **sides("1", "2")}
    points = curve([50, 55], seeds=5)
    assert verdict({"kind": "all", "of": [up, up]}, points).outcome == "held"
    assert verdict({"kind": "all", "of": [up, down]}, points).outcome == "not held"


@pytest.mark.parametrize(
    ("check", "remark"),
    [
        (None, "it needs other runs"),
        ({"kind": "greater", "left": {"group": "base"}, "right": {"group": "a"}}, "no scores of base"),
        ({"kind": "rising", "of": {"x": "1"}}, "no scores of 1 at two places of the x axis"),
        ({"kind": "peak_inside", "of": {"x": ["1", "2"]}}, "no scores of 1, 2 at three places of the x axis"),
        ({"kind": "best", "of": {"x": "1"}, "at": {"x": "1"}}, "no scores of anything beside 1"),
    ],
)
def test_what_is_not_there_is_not_computed(check: Any, remark: str) -> None:
    found = verdict(check, curve([50, 51, 52], seeds=3))
    assert (found.outcome, found.remark, found.findings) == ("not computed here", remark, ())


def test_a_part_that_is_missing_is_named() -> None:
    check = {"kind": "greater", "left": {"x": ["2", "4"]}, "right": {"x": "1"}}
    found = verdict(check, curve([50, 55], seeds=5))
    assert (found.outcome, found.remark) == ("held", "without 4")


def test_pure_noise_is_called_something_no_more_often_than_is_said() -> None:
    """At most in 2.5 % of the cases either way: counts that such a rate would exceed once in a thousand times."""
    rng, draws = np.random.default_rng(1), 600
    most = stats.binom.ppf(0.999, draws, 0.025)

    def noise() -> list[Point]:
        """A setting's score moves with its seed by as much as by itself."""
        shared = rng.normal(size=(len(TICKS), 4))
        return [
            Point("", "a", x, seed, 50 + shared[i, seed] + rng.normal(), f"tau={setting}")
            for i, x in enumerate(TICKS)
            for seed in range(4)
            for setting in range(2)
        ]

    one = {"kind": "greater", **sides("2", "1")}
    several = {"kind": "all_greater", "left": {"x": "1"}, "right": [{"x": x} for x in TICKS[1:]]}
    for check in (one, several, {"kind": "rising", "of": {}}):
        words = [verdict(check, noise()).outcome for _ in range(draws)]
        assert words.count("held") <= most and words.count("not held") <= most
