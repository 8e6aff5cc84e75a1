"""Claims on invented scores: clear, contrary or too few; pairing, intervals, every kind of comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from analysis.figures.claims import about_equal, all_of, at_most, best, greater, peak_inside, rising
from analysis.figures.scores import Point, Scores
from analysis.figures.verdicts import Claim, Evidence, Verdict, decide
from analysis.reporting.intervals import ERROR

Check = Callable[[Scores], Evidence]
TICKS = ["1", "2", "3", "4", "5"]
NOISE = (0.0, 0.3, -0.2, 0.1, -0.15)


def verdict(check: Check | None, points: Sequence[Point]) -> Verdict:
    claim = Claim("a", "so", "5", check, "it needs other runs")
    [found] = decide([claim], Scores(points, ticks=TICKS))
    return found


def two_above_one(scores: Scores) -> Evidence:
    return greater(scores(x="2"), scores(x="1"))


def one_above_each(scores: Scores) -> Evidence:
    return greater(scores(x="1"), *(scores(x=x) for x in TICKS[1:]))


def rise(scores: Scores) -> Evidence:
    return rising(scores())


def peak(scores: Scores) -> Evidence:
    return peak_inside(scores())


def curve(scores: Sequence[float], seeds: int = 3, group: str = "a", panel: str = "") -> list[Point]:
    """Returns a score for each tick and seed, with small differences between seeds at each tick."""
    return [
        Point(panel, group, x, seed, score + seed + NOISE[(i + 2 * seed) % 5])
        for i, (x, score) in enumerate(zip(TICKS, scores, strict=False))
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(
    ("gain", "seeds", "outcome"),
    [
        (5.0, 4, "held"),
        (-5.0, 4, "not held"),
        (0.1, 4, "undecided at this size"),
        (5.0, 2, "undecided at this size"),  # at least three seeds are needed
        (5.0, 1, "undecided at this size"),
    ],
)
def test_greater_is_decided_by_gain_and_number_of_seeds(gain: float, seeds: int, outcome: str) -> None:
    assert verdict(two_above_one, curve([50, 50 + gain], seeds)).outcome == outcome


def test_the_interval_equals_that_of_paired_differences() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(50, 10, size=6)  # differences between seeds are much larger than gains
    gains = rng.normal(1, 0.5, size=6)
    points = [
        Point("", "a", x, seed, score)
        for x, scores in (("1", base), ("2", base + gains))
        for seed, score in enumerate(scores)
    ]
    found = verdict(two_above_one, [points[i] for i in rng.permutation(12)])
    [finding] = found.findings
    low, high = stats.ttest_1samp(gains, 0).confidence_interval()
    assert finding.value == pytest.approx(gains.mean())
    assert (finding.low, finding.high) == pytest.approx((low, high))
    assert (finding.n, finding.of, found.outcome, finding.what) == (6, "seeds", "held", "2 − 1")


def test_only_scores_of_both_sides_are_paired() -> None:
    points = [*curve([50, 52], seeds=3), Point("", "a", "2", 9, 90.0, "another setting")]
    [finding] = verdict(two_above_one, points).findings
    assert finding.n == 3 and finding.high < 10


def test_scores_of_one_pair_are_averaged() -> None:
    points = [Point("", "a", "1", s, 50.0) for s in range(3)] + [
        Point("", "a", "2", s, 52 + s / 10 + d) for s in range(3) for d in (-1, 1)
    ]
    [finding] = verdict(two_above_one, points).findings
    assert finding.n == 3 and finding.value == pytest.approx(2.1)
    assert finding.low == pytest.approx(stats.ttest_1samp([2, 2.1, 2.2], 0).confidence_interval()[0])


def test_settings_of_one_seed_are_averaged() -> None:
    def pairs(seeds: int) -> list[Point]:
        """Returns scores in which one side leads by the number of the seed in every setting."""
        return [
            Point("", "a", x, seed, 50 + (x == "2") * (seed + 1) + 5 * setting, f"tau={setting}")
            for x in ("1", "2")
            for seed in range(seeds)
            for setting in range(6)
        ]

    two_seeds = verdict(two_above_one, pairs(2))
    low, high = stats.ttest_1samp([1, 2], 0).confidence_interval()
    assert (two_seeds.findings[0].value, two_seeds.findings[0].low, two_seeds.findings[0].high) == pytest.approx(
        (1.5, low, high)
    ) and two_seeds.outcome == "undecided at this size"
    [found] = verdict(two_above_one, pairs(3)).findings
    low, high = stats.ttest_1samp([1, 2, 3], 0).confidence_interval()
    assert (found.n, found.of) == (3, "seeds")
    assert (found.value, found.low, found.high) == pytest.approx((2, low, high))
    unpaired = [point._replace(seed=point.seed + 10 * (point.x == "2")) for point in pairs(3)]
    [found] = verdict(two_above_one, unpaired).findings
    low, high = stats.ttest_ind([1, 2, 3], [0, 0, 0], equal_var=False).confidence_interval()
    assert (found.n, found.low, found.high) == pytest.approx((3, low, high))


def test_sides_without_common_seeds_get_welchs_interval() -> None:
    a, b = [50.0, 50.4, 50.1, 49.7], [51.0, 51.9, 51.2]
    points = [Point("", "a", "1", i, score) for i, score in enumerate(a)]
    points += [Point("", "a", "2", 10 + i, score) for i, score in enumerate(b)]
    [finding] = verdict(two_above_one, points).findings
    low, high = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert (finding.low, finding.high) == pytest.approx((low, high))
    assert (finding.n, finding.of) == (3, "seeds a side, unpaired")


def test_too_few_common_seeds_fall_back_to_all_seeds_unpaired() -> None:
    points = [Point("", "a", "1", i, 50 + i / 10) for i in range(5)]
    points += [Point("", "a", "2", i + 3, 60 + i / 10) for i in range(5)]  # two seeds in common
    found = verdict(two_above_one, points)
    assert (found.outcome, found.seeds, found.findings[0].of) == ("held", 5, "seeds a side, unpaired")


def test_a_rise_with_a_step_of_too_few_seeds_is_undecided() -> None:
    points = [point for point in curve([50, 55, 60]) if (point.x, point.seed) != ("2", 2)]
    assert verdict(rise, points).outcome == "undecided at this size"


def test_one_score_per_side_has_no_interval() -> None:
    points = [Point("", "a", "1", 1, 50.0), Point("", "a", "2", 2, 60.0)]
    found = verdict(two_above_one, points)
    assert found.outcome == "undecided at this size"
    assert found.findings[0].value == 10 and found.findings[0].high == np.inf


def test_a_margin_is_required() -> None:
    points = curve([50, 52], seeds=5)

    def outcome(compare: Callable[..., Evidence], margin: float) -> str:
        return verdict(lambda scores: compare(scores(x="2"), scores(x="1"), margin=margin), points).outcome

    assert (outcome(greater, 1), outcome(greater, 4)) == ("held", "not held")
    assert (outcome(at_most, 4), outcome(at_most, 0)) == ("held", "not held")


@pytest.mark.parametrize(
    ("gain", "outcome"), [(0.5, "held"), (2.0, "not held"), (-0.5, "not held"), (1.0, "undecided at this size")]
)
def test_a_difference_may_be_larger_than_in_the_paper(gain: float, outcome: str) -> None:
    points = [
        p._replace(score=50 + (p.x == "2") * gain + (p.seed - 2) / 100 * (p.x == "2"))
        for p in curve([0, 0], seeds=5)
    ]
    found = verdict(lambda scores: greater(scores(x="2"), scores(x="1"), most=1.0), points)
    assert found.outcome == outcome
    assert found.findings[0].condition.text == "above 0, at most the paper's 1"


def test_findings_state_their_condition() -> None:
    points = curve([50, 52, 54], seeds=5)
    conditions: dict[str, Check] = {
        "above 0.5 (margin set by this suite)": lambda s: greater(s(x="2"), s(x="1"), margin=0.5),
        "at most 0": lambda s: at_most(s(x="2"), s(x="1")),
        "within 0.5 either way (margin set by this suite)": lambda s: about_equal(s(x="2"), s(x="1"), margin=0.5),
        "above 33": peak,
    }
    for text, check in conditions.items():
        assert [finding.condition.text for finding in verdict(check, points).findings] == [text]
    steps = verdict(rise, points).findings
    assert [step.condition.text for step in steps] == [
        "above 0",
        *["no clear step down, and none by more than 0"] * 2,
    ]
    steps = verdict(lambda scores: rising(scores(), margin=0.5), points).findings
    assert steps[1].condition.text == "no clear step down, and none by more than 0.5 (margin set by this suite)"


def test_a_verdict_states_its_number_of_seeds() -> None:
    def verdict_of(seeds: int, seed_shift: int = 0) -> Verdict:
        points = [point for i in range(4) for point in curve([50, 60], seeds, group=f"g{i}")]
        return verdict(
            two_above_one, [point._replace(seed=point.seed + seed_shift * (point.x == "2")) for point in points]
        )

    assert [(verdict_of(seeds).outcome, verdict_of(seeds).seeds) for seeds in (1, 2, 3)] == [
        ("undecided at this size", 1),
        ("undecided at this size", 2),
        ("held", 3),
    ]
    assert [verdict_of(seeds, seed_shift=10).seeds for seeds in (1, 2, 3)] == [1, 2, 3]
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
def test_about_equal_needs_an_interval_within_the_margin(gain: float, margin: float, outcome: str) -> None:
    points = curve([50, 50 + gain], seeds=5)
    assert verdict(lambda s: about_equal(s(x="2"), s(x="1"), margin=margin), points).outcome == outcome


def test_above_several_must_hold_for_each_and_one_contrary_refutes_it() -> None:
    def check(scores: Scores) -> Evidence:
        return greater(scores(x="3"), scores(x="1"), scores(x="2"))

    assert verdict(check, curve([50, 51, 55], seeds=5)).outcome == "held"
    assert verdict(check, curve([50, 55, 55], seeds=5)).outcome == "undecided at this size"
    assert verdict(check, curve([50, 60, 55], seeds=5)).outcome == "not held"


def test_a_contrary_finding_among_several_needs_a_wider_interval() -> None:
    [first, *_] = verdict(one_above_each, curve([50] * 5, seeds=4)).findings
    [alone] = verdict(lambda scores: greater(scores(x="1"), scores(x="2")), curve([50] * 5, seeds=4)).findings
    assert (first.low, first.high) == (alone.low, alone.high)
    assert (first.tests, alone.tests) == (4, 1)
    reach = stats.t.ppf(1 - 0.05 / 4 / 2, 3) / stats.t.ppf(0.975, 3) * (first.high - first.value)
    assert first.interval(ERROR / first.tests)[1] == pytest.approx(first.value + reach)


def test_each_compares_at_every_value() -> None:
    points = curve([51, 52, 60], group="a", seeds=5) + curve([50, 50, 65], group="b", seeds=5)
    assert verdict(lambda s: greater(s(group="a"), s(group="b")), points).findings[0].n == 5
    each = verdict(lambda s: greater(s(group="a"), s(group="b"), each="x"), points)
    assert [finding.what for finding in each.findings] == ["1: a − b", "2: a − b", "3: a − b"]
    assert each.outcome == "not held"


def test_each_compares_with_a_constant_level() -> None:
    level = [Point("", "none", "", seed, 49.0 + seed) for seed in range(5)]
    points = curve([51, 52, 53], group="a", seeds=5) + level
    found = verdict(lambda s: greater(s(group="a"), s(group="none", x=""), each="x"), points)
    assert [finding.what for finding in found.findings] == ["a at 1 − none", "a at 2 − none", "a at 3 − none"]
    assert found.outcome == "held"
    unnamed = verdict(lambda s: greater(s(group="a"), s(group="none"), each="x"), points)
    assert [(finding.what, finding.low) for finding in unnamed.findings] == [
        (finding.what, finding.low) for finding in found.findings
    ]
    assert verdict(lambda s: greater(s(group="a"), s(group="none")), points).findings[0].n == 5
    swapped = verdict(lambda s: at_most(s(group="none"), s(group="a"), each="x"), points)
    assert [finding.what for finding in swapped.findings] == ["none − a at 1", "none − a at 2", "none − a at 3"]
    assert swapped.outcome == "held"
    within_group = verdict(lambda s: greater(s(group="a", x="3"), s(group="a", x=["1", "2"]), each="x"), points)
    assert [finding.what for finding in within_group.findings] == ["a: 3 − 1", "a: 3 − 2"]


@pytest.mark.parametrize(
    ("scores", "seeds", "margin", "outcome"),
    [
        pytest.param([50, 52, 54, 56, 58], 4, 0, "held", id="clear steps up"),
        pytest.param([50, 52, 51.8, 56, 58], 4, 0, "undecided at this size", id="an unclear step down"),
        pytest.param([50, 52, 52.1, 56, 58], 4, 0, "undecided at this size", id="an unclear step up"),
        pytest.param([50, 52, 52.1, 56, 58], 4, 1, "held", id="an unclear step up with a margin"),
        pytest.param([50, 56, 51, 57, 58], 4, 0, "not held", id="a clear step down"),
        pytest.param([50, 56, 54, 57, 58], 4, 3, "not held", id="a clear step down within the margin"),
        pytest.param([58, 56, 54, 52, 50], 4, 0, "not held", id="clear steps down"),
        pytest.param([50, 52, 54, 56, 58], 1, 0, "undecided at this size", id="one seed"),
    ],
)
def test_rising_requires_every_step_to_rise(scores: list[float], seeds: int, margin: float, outcome: str) -> None:
    found = verdict(lambda selection: rising(selection(group="a"), margin=margin), curve(scores, seeds))
    assert found.outcome == outcome


def test_peak_inside_tests_the_share_of_curves_against_chance() -> None:
    inside, edge = [50, 55, 58, 55, 50], [60, 55, 54, 53, 52]

    def copies(shape: Sequence[float], curves: int) -> list[Point]:
        return [point._replace(seed=i) for i in range(curves) for point in curve(shape, seeds=1)]

    found = verdict(peak, copies(inside, 10))
    assert found.outcome == "held"
    low = stats.binomtest(10, 10).proportion_ci(0.95, "exact").low
    assert found.findings[0].low == pytest.approx(100 * low) and found.findings[0].high == 100
    assert "60 % without any trend" in found.findings[0].what
    assert verdict(peak, copies(edge, 10)).outcome == "not held"
    assert verdict(peak, copies(inside, 3)).outcome == "undecided at this size"
    one_seed = [p._replace(group=f"g{p.seed}", seed=1) for p in copies(inside, 10)]
    assert verdict(peak, one_seed).outcome == "undecided at this size"
    assert verdict(peak, one_seed).findings[0].low == 0  # curves of one seed may be correlated


def test_seeds_that_differ_widen_the_share_of_curves() -> None:
    inside, edge = [50, 58, 50], [60, 54, 53]

    def points(seeds: int) -> list[Point]:
        shapes = {"a": inside, "b": inside, "c": inside, "d": edge}
        return [p for group, shape in shapes.items() for p in curve(shape, seeds, group=group)]

    for seeds in (2, 3, 4):  # three of four curves of each seed peak inside
        [found] = verdict(peak, points(seeds)).findings
        assert (found.n, found.of, found.value) == (4 * seeds, "curves", 75.0)
        interval = stats.binomtest(3 * seeds, 4 * seeds).proportion_ci(0.95, "exact")
        assert (found.low, found.high) == pytest.approx((100 * interval.low, 100 * interval.high))
    uneven = [p._replace(score=100.0) if p.seed == 1 and p.x == "1" else p for p in points(4)]
    assert len({p.seed for p in uneven}) == 4
    [found] = verdict(peak, uneven).findings  # no curve of seed 1 peaks inside, three of four of the others
    reach = stats.t.ppf(0.975, 3) * np.std([0, 75, 75, 75], ddof=1) / 2
    assert found.value == pytest.approx(56.25)
    assert (found.low, found.high) == pytest.approx((max(0, 56.25 - reach), min(100, 56.25 + reach)))


def test_three_seeds_whose_curves_all_peak_inside_are_enough() -> None:
    points = [p for group in "abcd" for p in curve([50, 58, 50], 3, group=group)]
    assert verdict(peak, points).outcome == "held"


def test_labels_named_on_both_sides_are_compared_pair_by_pair() -> None:
    points = [p for n, group in enumerate("abcd") for p in curve([50 + 9 * n, 51 + 9 * n], 3, group=group)]

    def named_groups(scores: Scores) -> Evidence:
        return greater(scores(x="2", group=[*"abcd"]), scores(x="1", group=[*"abcd"]))

    [incomplete] = verdict(named_groups, points[:-1]).findings  # a score without a partner is left out
    assert incomplete.n == 3 and abs(incomplete.value - 1) < 1
    assert verdict(named_groups, points).outcome == "held"


def test_panels_of_one_encoder_are_one_curve() -> None:
    shape = [50, 55, 58, 55, 50]
    points = [p for i in range(4) for panel in "xy" for p in curve(shape, seeds=1, group=f"g{i}", panel=panel)]
    assert verdict(peak, points).findings[0].n == 4


def test_best_compares_with_every_other_score() -> None:
    points = curve([50, 55, 51], group="a", seeds=5) + curve([48, 49, 47], group="b", seeds=5)

    def found_best(**at: str) -> Verdict:
        return verdict(lambda scores: best(scores(**at), of=scores(group=["a", "b"])), points)

    found = found_best(group="a", x="2")
    assert found.outcome == "held" and len(found.findings) == 5
    assert found_best(group="b", x="2").outcome == "not held"
    mean_over_x = found_best(group="a")  # its mean over x is compared with each score of b
    assert len(mean_over_x.findings) == 3


def test_all_of_requires_every_check() -> None:
    points = curve([50, 55], seeds=5)

    def down(scores: Scores) -> Evidence:
        return greater(scores(x="1"), scores(x="2"))

    both = verdict(lambda scores: all_of(two_above_one(scores), two_above_one(scores)), points)
    assert (both.outcome, [finding.tests for finding in both.findings]) == ("held", [2, 2])
    assert verdict(lambda scores: all_of(two_above_one(scores), down(scores)), points).outcome == "not held"


@pytest.mark.parametrize(
    ("check", "remark"),
    [
        (None, "it needs other runs"),
        (lambda s: greater(s(group="base"), s(group="a")), "no scores of base"),
        (lambda s: rising(s(x="1")), "no scores of 1 at two places of the x axis"),
        (lambda s: peak_inside(s(x=["1", "2"])), "no scores of 1, 2 at three places of the x axis"),
        (lambda s: best(s(x="1"), of=s(x="1")), "no scores of anything beside 1"),
    ],
)
def test_claims_without_scores_are_not_computed(check: Check | None, remark: str) -> None:
    found = verdict(check, curve([50, 51, 52], seeds=3))
    assert (found.outcome, found.remark, found.findings) == ("not computed here", remark, ())


def test_a_missing_part_is_named() -> None:
    found = verdict(lambda scores: greater(scores(x=["2", "4"]), scores(x="1")), curve([50, 55], seeds=5))
    assert (found.outcome, found.remark) == ("held", "without 4")


def test_pure_noise_is_decided_no_more_often_than_the_error_rate() -> None:
    """At most 2.5 % of cases are decided in either direction; chance exceeds the bound with probability 0.001."""
    rng, draws = np.random.default_rng(1), 600
    most = stats.binom.ppf(0.999, draws, 0.025)

    def noise() -> list[Point]:
        """Returns scores whose seed and setting effects have equal variance."""
        shared = rng.normal(size=(len(TICKS), 4))
        return [
            Point("", "a", x, seed, 50 + shared[i, seed] + rng.normal(), f"tau={setting}")
            for i, x in enumerate(TICKS)
            for seed in range(4)
            for setting in range(2)
        ]

    for check in (two_above_one, one_above_each, rise):
        outcomes = [verdict(check, noise()).outcome for _ in range(draws)]
        assert outcomes.count("held") <= most and outcomes.count("not held") <= most
