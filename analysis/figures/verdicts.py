"""Verdicts on claims: differences, their 95 % intervals, and "held", "not held" or "undecided".

    d_k = score(left, k) - score(right, k),    mean(d) ± t(n - 1) sd(d) / sqrt(n)

k runs over the seeds that both sides have. Runs of one seed share their start and the order of their data, so that
differences are not independent: d_k is the mean over everything else both sides have (settings, and each panel,
group or x that neither side names). Sides with too few common seeds, but enough of their own, are compared by
Welch's interval of the means per seed. Fewer than LEAST seeds decide nothing.

A claim of m differences holds if each does by its 95 % interval; a single one refutes it only by its interval at
1 - 0.05 / m (Bonferroni). For normal differences "held" is wrong in at most 2.5 % of the cases, and so is "not
held" (5 % for two-sided claims).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from analysis.figures.scores import NoScoresError, Scores, Selection
from analysis.reporting.intervals import ERROR, LEAST, reach

Outcome = Literal["held", "not held", "undecided at this size", "not computed here"]
Interval = tuple[float, float]


class Condition(NamedTuple):
    """Condition that a claim puts on a value: in words, and as tests of the ends of its interval."""

    text: str
    held: Callable[[float, float], bool]
    refuted: Callable[[float, float], bool]


@dataclass(frozen=True)
class Finding:
    """A mean difference in points (or a ``share`` in percent) with its interval.

    Attributes:
        what: names the difference.
        value: its mean.
        interval: the interval by its probability of missing; infinite where there are too few scores.
        n, of: the number of observations, and what they are.
        seeds: the number of seeds (in a density figure, of documents).
        condition: what the claim requires of the value.
        tests: how many differences the claim compares.
        share: whether the value is a share in percent.
    """

    what: str
    value: float
    interval: Callable[[float], Interval]
    n: int
    of: str
    seeds: int
    condition: Condition
    tests: int = 1
    share: bool = False

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.interval(ERROR)[0]

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.interval(ERROR)[1]

    @property
    def outcome(self) -> Outcome:
        """The verdict on this single difference."""
        if self.seeds < LEAST:
            return "undecided at this size"
        if self.condition.refuted(*self.interval(ERROR / self.tests)):
            return "not held"
        return "held" if self.condition.held(*self.interval(ERROR)) else "undecided at this size"


@dataclass(frozen=True)
class Evidence:
    """The findings that decide a claim, and the selections of scores that they compare."""

    findings: tuple[Finding, ...]
    sides: tuple[Selection, ...]

    @property
    def outcome(self) -> Outcome:
        """Held if each finding is; not held if one is refuted."""
        outcomes = [finding.outcome for finding in self.findings]
        if all(outcome == "held" for outcome in outcomes):
            return "held"
        return "not held" if "not held" in outcomes else "undecided at this size"


@dataclass(frozen=True)
class Claim:
    """Statement of a paper on a figure or table, reworded, and the function that checks it on scores.

    Attributes:
        id: a name, unique within the figure.
        text: the statement.
        section: where the paper makes it.
        check: scores to evidence (see analysis.figures.claims); None: not computed here.
        reason: why it is not computed.
    """

    id: str
    text: str
    section: str
    check: Callable[[Scores], Evidence] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim, the findings behind it, and remarks on them.

    ``sides`` are the selections of scores that were compared.
    """

    claim: Claim
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    remark: str = ""
    sides: tuple[Selection, ...] = ()

    @property
    def seeds(self) -> int:
        """The fewest seeds behind a finding."""
        return min((found.seeds for found in self.findings), default=0)


def decide(claims: Iterable[Claim], scores: Scores) -> list[Verdict]:
    """Returns a verdict on each claim, in order."""
    return [_verdict(claim, scores) for claim in claims]


def _verdict(claim: Claim, scores: Scores) -> Verdict:
    if claim.check is None:
        return Verdict(claim, "not computed here", (), claim.reason)
    try:
        evidence = claim.check(scores)
        outcome = evidence.outcome
    except NoScoresError as none:
        return Verdict(claim, "not computed here", (), f"no scores of {none}")
    missing = dict.fromkeys(name for side in evidence.sides for _, name in side.missing)
    remark = f"without {', '.join(missing)}" if missing else ""
    return Verdict(claim, outcome, evidence.findings, remark, evidence.sides)


def t_interval(value: float, error: float, freedom: float) -> Callable[[float], Interval]:
    """Returns the t-interval around ``value`` as a function of the probability of missing.

    Args:
        value: the mean.
        error: its standard error; not a number where there is none, which gives an infinite interval.
        freedom: degrees of freedom.
    """

    def interval(miss: float) -> Interval:
        far = math.inf if math.isnan(error) else reach(error, freedom, miss)
        return value - far, value + far

    return interval


def share_interval(hits: float, n: int, miss: float) -> Interval:
    """Returns the interval of a share in percent (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, miss / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - miss / 2)) if hits < n else 1.0
    return 100 * low, 100 * high
