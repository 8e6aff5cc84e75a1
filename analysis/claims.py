"""Claims of a paper, decided on our scores: differences of means over seeds with 95 % intervals.

    d_k = score(left, k) - score(right, k),    mean(d) ± t(n - 1) sd(d) / sqrt(n)

k runs over the seeds that both sides have, as runs of one seed share their start and the order of their data. d_k
is the mean over all else that both sides have: the labels of each axis on which they have some in common.
Fewer than LEAST common seeds decide nothing.

A claim of m differences holds if each of them does by its 95 % interval. A single one refutes it only by its
interval at 1 - 0.05 / m (Bonferroni).

    {"two anchors beat one (5.2)": greater("A == '2'", "A == '1'")}

Scores are a long frame (see analysis.papers.base). A side is a condition of pandas' ``DataFrame.query``, "" for
all scores; several labels count by their mean. ``each="A"`` makes one difference for each label of an axis that
the sides have in common, or for each pair of their labels if they have none. The label "" marks scores that the
axis does not apply to. Margins are the suite's reading of words such as "minimal".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from textwrap import shorten

import pandas as pd

from analysis.bootstrap import ERROR, LEAST, t_half_width

Interval = tuple[float, float]
UNDECIDED = "undecided at this size"
ABOVE = math.ulp(0.0)  # the least difference above zero


class NoScoresError(Exception):
    """A side has no scores; the message names it."""


@dataclass(frozen=True)
class Finding:
    """A mean difference in points, or a share in percent.

    Attributes:
        text: what is compared.
        value: the difference or share.
        interval: probability of missing the true value to the interval.
        seeds: number of seeds behind it.
        low, high: the claim requires a value of at least low and at most high.
        slack: the claim is not refuted above low + slack.
    """

    text: str
    value: float
    interval: Callable[[float], Interval]
    seeds: int
    low: float
    high: float = math.inf
    slack: float = 0.0

    def outcome(self, tests: int) -> str:
        """Returns "held", "not held" (with an interval that ``tests`` differences share) or "undecided"."""
        if self.seeds < LEAST:
            return UNDECIDED
        low, high = self.interval(ERROR / tests)
        if low > self.high or high < self.low + self.slack:
            return "not held"
        low, high = self.interval(ERROR)
        return "held" if self.low <= low and high <= self.high else UNDECIDED

    def __str__(self) -> str:
        low, high = self.interval(ERROR)
        limits = f"[{low:+.2f}, {high:+.2f}], seeds: {self.seeds}; claimed: {self.low:.2f} to {self.high:.2f}"
        return f"{self.text}: {self.value:+.2f} {limits}"


Evidence = Sequence[Finding]
Rows = str | Sequence[str]  # labels of a table's rows
Check = Callable[[pd.DataFrame], Evidence]
# Statements of a paper, reworded, with its section, to what must hold on the long frame: a check, several, or the
# reason why none is made.
Claims = Mapping[str, Check | Sequence[Check] | str]


@dataclass(frozen=True)
class Verdict:
    """Outcome of a claim, with its evidence or the reason why there is none."""

    claim: str
    outcome: str
    evidence: Evidence
    reason: str


def decide(claims: Claims, scores: pd.DataFrame) -> list[Verdict]:
    """Returns a verdict on each claim."""
    verdicts = []
    for claim, basis in claims.items():
        checks = [basis] if callable(basis) else [] if isinstance(basis, str) else basis
        evidence: Evidence = []
        reason = "" if checks else str(basis)
        try:
            evidence = [finding for check in checks for finding in check(scores)]
        except NoScoresError as error:
            reason = f"no scores of {error}"
        outcomes = [finding.outcome(len(evidence)) for finding in evidence]
        outcome = min(outcomes, key=["not held", UNDECIDED, "held"].index, default="not computed here")
        verdicts.append(Verdict(claim, outcome, evidence, reason))
    return verdicts


def describe(basis: Check | Sequence[Check] | str) -> list[str]:
    """Returns how a claim is decided: its differences and their limits, or why none is computed."""
    if isinstance(basis, str):
        return [f"not computed here: {basis}"]
    return [
        "({}) − ({}), each {!r}: {:.2f} to {:.2f}".format(*check.args)
        if isinstance(check, partial)
        else str(check.__doc__)
        for check in ([basis] if callable(basis) else basis)
    ]


def greater(left: str, right: str, each: str = "", least: float = ABOVE, most: float = math.inf) -> Check:
    """Claims that ``left`` is above ``right``, by at least ``least`` and at most ``most`` points."""
    return partial(_compare, left, right, each, least, most)


def at_most(left: str, right: str, each: str = "", margin: float = 0.0) -> Check:
    """Claims that ``left`` is not above ``right`` by more than ``margin`` points."""
    return partial(_compare, left, right, each, -math.inf, margin)


def about_equal(left: str, right: str, each: str = "", margin: float = 0.5) -> Check:
    """Claims that ``left`` is within ``margin`` points of ``right``."""
    return partial(_compare, left, right, each, -margin, margin)


def best(side: str, among: str, each: str) -> Check:
    """Claims that ``side`` is above all else in ``among``, at each label of the axes ``each``."""
    return greater(f"({among}) and ({side})", f"({among}) and not ({side})", each)


def above(panel: str, rows: Rows, others: Rows, each: str = "row", check: Callable[..., Check] = greater) -> Check:
    """Claims that each of ``rows`` is above each of ``others`` in a panel; ``each=""`` compares their means."""
    return check(f"panel == {panel!r} and row == {rows!r}", f"panel == {panel!r} and row == {others!r}", each)


def rising(side: str, axis: str, margin: float) -> Check:
    """Claims that scores rise along ``axis``: the last above the first, no step down by over ``margin`` points.

    A single step that is clearly down refutes it.
    """

    def check(scores: pd.DataFrame) -> Evidence:
        rows = _select(scores, side)
        places = [rows[rows[axis] == label] for label in list_labels(rows, axis)]
        if len(places) < 2:
            raise NoScoresError(f"{side} at two places")
        steps = [
            _difference(scores, after, before, -margin, math.inf, margin) for before, after in pairwise(places)
        ]
        return [_difference(scores, places[-1], places[0], ABOVE), *steps]

    check.__doc__ = f"{side}: the last {axis} above the first, and no step clearly down by {margin}"
    return check


def peak_inside(side: str, axis: str) -> Check:
    """Claims that curves along ``axis`` tend to peak inside its range.

    Their share is compared with that of the inner places, which curves without a trend give. A curve is a method
    and seed, which counts by its mean over panels. The interval is the wider of Clopper and Pearson's and the
    t-interval over the shares of the seeds, as curves of one seed may go together.
    """

    def check(scores: pd.DataFrame) -> Evidence:
        from scipy.special import betaincinv  # binomtest takes no halves, which curves over two panels give

        rows = _select(scores, side)
        places, index = list_labels(rows, axis), rows.columns.drop([axis, "score", "run"])
        curves = rows.pivot_table(index=[*index], columns=axis, values="score").dropna()
        if len(places) < 3 or curves.empty:
            raise NoScoresError(f"a whole curve of {side}")
        first, *inner, last = places
        peaks = curves[inner].max(axis=1) > curves[[first, last]].max(axis=1)
        inside = peaks.groupby([*index.drop("panel")]).mean()
        shares, n, hits = inside.groupby("seed").mean(), len(inside), inside.sum()

        def interval(miss: float) -> Interval:
            least = betaincinv(hits, n - hits + 1, miss / 2) if hits else 0.0
            most = betaincinv(hits + 1, n - hits, 1 - miss / 2) if hits < n else 1.0
            low, high = _t_interval(shares, miss)
            return 100 * min(least, max(0.0, low)), 100 * max(most, min(1.0, high))

        chance = 100 * len(inner) / len(places)
        text = f"{_name(scores, rows)}: % of {n} curves that peak inside ({chance:.0f} without a trend)"
        return [Finding(text, 100 * hits / n, interval, len(shares), chance)]

    check.__doc__ = f"{side}: share of curves along {axis} with a peak inside, above that without a trend"
    return check


def _compare(left: str, right: str, each: str, low: float, high: float, scores: pd.DataFrame) -> Evidence:
    axes = each.split() or (lambda row: "")
    lefts, rights = (dict(iter(_select(scores, side).groupby(axes, sort=False))) for side in (left, right))
    pairs = [(key, key) for key in lefts if key in rights] or product(lefts, rights)
    return [_difference(scores, lefts[key], rights[other], low, high) for key, other in pairs]


def _difference(scores: pd.DataFrame, left: pd.DataFrame, right: pd.DataFrame, *limits: float) -> Finding:
    paired = [axis for axis in _axes(scores) if not {*left[axis]}.isdisjoint(right[axis])]
    means = [side.groupby([*paired, "seed"])["score"].mean() for side in (left, right)]
    values = (means[0] - means[1]).dropna().groupby("seed").mean()
    text = f"{_name(scores, left)} − {_name(scores, right)}"
    return Finding(text, values.mean(), partial(_t_interval, values), len(values), *limits)


def _t_interval(values: pd.Series, miss: float) -> Interval:
    half = t_half_width(values.sem(), len(values) - 1, miss) if len(values) > 1 else math.inf
    return values.mean() - half, values.mean() + half


def _axes(scores: pd.DataFrame) -> pd.Index:
    return scores.columns.difference(["seed", "run", "score"], sort=False)


def _select(scores: pd.DataFrame, side: str) -> pd.DataFrame:
    """Returns the rows of a side.

    Raises:
        NoScoresError: if there are none.
    """
    rows = scores.query(side, engine="python") if side else scores
    if rows.empty:
        raise NoScoresError(side)
    return rows


def list_labels(scores: pd.DataFrame, axis: str) -> list[str]:
    """Returns the labels of ``axis``: numbers by size, others as they come."""
    labels = [*scores[axis].unique()]
    numbers = pd.to_numeric(pd.Series(labels), errors="coerce")
    return sorted(labels, key=float) if numbers.notna().all() else labels


def _name(scores: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Names a side by the labels to which it is restricted: "ConsSent-R at 2"."""
    axes = [axis for axis in _axes(scores) if rows[axis].nunique() < scores[axis].nunique()]
    return (
        " at ".join(filter(None, (shorten(", ".join(rows[axis].unique()), 99) for axis in axes))) or "all scores"
    )
