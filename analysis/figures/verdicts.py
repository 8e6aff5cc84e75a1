"""Whether scores bear out what a paper states: differences, their 95 % intervals, and a word for each statement.

    d_k = score(left, k) - score(right, k),    mean(d) ± t(n - 1) sd(d) / sqrt(n)

k runs over the seeds that the two sides have in common. Runs of one seed share their start and the order of their
data, so that their differences are no independent evidence: d_k is the mean over what else both sides have (every
setting, and every panel, group or x that neither names). Sides with too few seeds in common, and enough of their
own, are compared by Welch's interval, of means over each seed likewise. Fewer than LEAST seeds decide nothing.

A statement of m differences holds if each does by its 95 % interval; that one of them is contrary counts by its
interval at 1 - 0.05 / m alone (Bonferroni). Of normal differences "held" is wrong in at most 2.5 % of the cases,
and so is "not held" (of what can be contrary in two directions, about_equal and greater with most, in 5 %).

Kinds of checks (left, right, of, at: selectors, as in analysis.figures.description):

    greater, all_greater  left above right by more than margin (default 0), above each of a list; by no more than
                          "most", where the paper states how large the difference is
    at_most               left not above right by more than margin
    about_equal           left within margin of right
    rising                "of" rises along x: last clearly above first, and no step down by more than margin
                          (default 0); one step that is clearly down is contrary
    peak_inside           curves of "of" have their highest score inside the range of x, more of them than the
                          inner places' share, which is what curves without any trend give; the interval
                          also holds the t-interval of the seeds' own shares
    best                  "at" above every other (group, x) of "of"
    all                   a list of checks, all of which must hold

``each: x`` (or group, panel) asks a comparison at every value of that axis apart: of the right side where that
names several, else of the left, and of both where the right does not name the axis. Scores whose x is "" are a
level, which is compared with every place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from scipy.special import betaincinv, stdtrit

from analysis.figures.description import AXES, Figure, Point, Selector, Statement, in_order, selectors

Outcome = Literal["held", "not held", "undecided at this size", "not computed here"]
ERROR = 0.05  # what an interval may miss
LEAST = 3  # seeds: two that happen to be equal are no evidence


class Finding(NamedTuple):
    """A mean difference in points (or a ``share`` in percent) with its interval, from ``n`` of ``of``.

    ``low`` and ``high`` are infinite where there are too few for an interval. ``lowest`` and ``highest`` are the
    ends at the level that a contrary difference of several is held to. ``of`` says what n counts, ``seeds`` of how
    many seeds it is (of documents, where lengths are drawn), and ``asked`` what is asked of the value, in points.
    """

    what: str
    value: float
    low: float
    high: float
    lowest: float
    highest: float
    n: int
    of: str = "seeds"
    seeds: int = 0
    asked: str = ""
    share: bool = False


@dataclass(frozen=True)
class Verdict:
    """A statement's outcome, the findings behind it, and what is to be said of them."""

    statement: Statement
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    remark: str = ""

    @property
    def seeds(self) -> int:
        """The fewest seeds that a finding is of."""
        return min((found.seeds for found in self.findings), default=0)


class _NoScoresError(Exception):
    """A side of a comparison that has none."""


def judge(figure: Figure, points: Sequence[Point]) -> list[Verdict]:
    """One verdict a statement of ``figure``, in its order."""
    return [_verdict(figure, statement, points) for statement in figure.statements]


def _verdict(figure: Figure, statement: Statement, points: Sequence[Point]) -> Verdict:
    if statement.check is None:
        return Verdict(statement, "not computed here", (), statement.reason)
    try:
        outcome, findings = _Judge(figure, points).outcome(statement.check)
    except _NoScoresError as none:
        return Verdict(statement, "not computed here", (), f"no scores of {none}")
    there = {(axis, getattr(point, axis)) for point in points for axis in AXES}
    without = dict.fromkeys(
        value
        for selector in selectors(statement.check)
        for axis, values in selector.items()
        for value in values
        if (axis, value) not in there
    )
    return Verdict(statement, outcome, tuple(findings), f"without {', '.join(without)}" if without else "")


@dataclass(frozen=True)
class _Judge:
    figure: Figure
    points: Sequence[Point]

    def outcome(self, check: Mapping[str, Any], tests: int = 1) -> tuple[Outcome, list[Finding]]:
        """``tests`` checks are made for the statement, each as large as this one."""
        kind = check["kind"]
        if kind == "all":
            parts = [self.outcome(part, tests * len(check["of"])) for part in check["of"]]
            return _together([word for word, _ in parts]), [finding for _, found in parts for finding in found]
        if kind == "rising":
            return self._rising(check["of"], float(check.get("margin", 0.0)), tests)
        if kind == "peak_inside":
            return self._peak_inside(check["of"], tests)
        pairs = self._pairs(check)
        findings = [self._difference(*sides, tests * len(pairs)) for sides in pairs]
        margin, most = float(check.get("margin", 0.0)), float(check.get("most", math.inf))
        words = [_word(kind, finding, margin, most) for finding in findings]
        return _together(words), [finding._replace(asked=_asked(kind, margin, most)) for finding in findings]

    def _pairs(self, check: Mapping[str, Any]) -> list[tuple[Selector, Selector]]:
        """The sides of every difference that a comparison asks for."""
        if check["kind"] == "best":
            at = {axis: values for axis, values in check["of"].items() if axis == "panel"} | dict(check["at"])
            return [(at, other) for other in self._others(check["of"], at)]
        rights = check["right"] if isinstance(check["right"], list) else [check["right"]]
        pairs = [(check["left"], right) for right in rights]
        return [part for pair in pairs for part in self._each(*pair, check["each"])] if "each" in check else pairs

    def _each(self, left: Selector, right: Selector, axis: str) -> list[tuple[Selector, Selector]]:
        level = [axis == "x" and self._is_level(side) for side in (left, right)]
        if len(right.get(axis, ())) > 1 or (level[0] and axis not in right):
            return [(left, {**right, axis: (value,)}) for value in self._values(right, axis)]
        apart = axis not in right and not level[1]
        return [
            ({**left, axis: (value,)}, {**right, axis: (value,)} if apart else right)
            for value in self._values(left, axis)
        ]

    def _is_level(self, selector: Selector) -> bool:
        """Whether what is chosen belongs to no place on the x axis, and so is beside each of them."""
        return all(not point.x for point in self._chosen(selector))

    def _others(self, of: Selector, at: Selector) -> Sequence[Selector]:
        chosen = {(point.group, point.x) for point in self._chosen(at)}
        rest = dict.fromkeys((point.group, point.x) for point in self._chosen(of))
        found = [{**of, "group": (group,), "x": (x,)} for group, x in rest if (group, x) not in chosen]
        if not found:
            raise _NoScoresError(f"anything beside {_name(at)}")
        return found

    def _chosen(self, selector: Selector) -> list[Point]:
        found = [p for p in self.points if all(getattr(p, axis) in values for axis, values in selector.items())]
        if not found:
            raise _NoScoresError(_name(selector))
        return found

    def _values(self, selector: Selector, axis: str) -> list[str]:
        """The values of ``axis`` among the scores chosen, in the figure's order."""
        order = {"panel": self.figure.panels, "group": self.figure.groups, "x": self.figure.ticks}[axis]
        return in_order(order, (getattr(point, axis) for point in self._chosen(selector)))

    def _difference(self, left: Selector, right: Selector, tests: int) -> Finding:
        free = [axis for axis in AXES if left.get(axis) == right.get(axis)]  # both name the same values, or none
        if "x" in free and self._is_level(left) != self._is_level(right):
            free.remove("x")
        a, b = (_by_key(self._chosen(side), [*free, "setting", "seed"]) for side in (left, right))
        what = _contrast(left, right)
        differences = _by_seed({key: a[key] - b[key] for key in a if key in b})
        ours, theirs = _by_seed(a), _by_seed(b)
        fewest = min(len(ours), len(theirs))
        if len(differences) < 2 <= fewest or len(differences) < LEAST <= fewest:
            return _welch(what, ours, theirs, tests)
        if not differences:
            return _finding(what, fmean(ours) - fmean(theirs), math.nan, 0, fewest, tests)
        n = len(differences)
        error = stdev(differences) / math.sqrt(n) if n > 1 else math.nan
        of = "documents" if self.figure.kind == "density" else "seeds"
        return _finding(what, fmean(differences), error, n - 1, n, tests, of)

    def _rising(self, of: Selector, margin: float, tests: int) -> tuple[Outcome, list[Finding]]:
        places = self._values(of, "x")
        if len(places) < 2:
            raise _NoScoresError(f"{_name(of)} at two places of the x axis")
        steps = list(pairwise(places))
        steps = [(places[0], places[-1]), *steps] if len(steps) > 1 else steps
        whole, *parts = (
            self._difference({**of, "x": (after,)}, {**of, "x": (before,)}, tests * len(steps))
            for before, after in steps
        )
        falls = any(part.highest < 0 and part.seeds >= LEAST for part in parts)
        word = _word("greater", whole)
        asked = f"no clear step down, and none by more than {_points(margin)}"
        found = [whole._replace(asked="above 0"), *(part._replace(asked=asked) for part in parts)]
        if falls or word == "not held":
            return "not held", found
        up = word == "held" and all(part.low >= -margin and part.seeds >= LEAST for part in parts)
        return "held" if up else "undecided at this size", found

    def _peak_inside(self, of: Selector, tests: int) -> tuple[Outcome, list[Finding]]:
        """A curve is a trained method (group, setting, seed), which counts by its mean over panels."""
        places = self._values(of, "x")
        if len(places) < 3:
            raise _NoScoresError(f"{_name(of)} at three places of the x axis")
        curves: dict[tuple[str, ...], list[bool]] = {}
        for panel in self._values(of, "panel"):
            scores = _by_key(self._chosen({**of, "panel": (panel,)}), ["group", "setting", "seed", "x"])
            for curve in dict.fromkeys(key[:-1] for key in scores):
                along = [scores[(*curve, place)] for place in places if (*curve, place) in scores]
                if len(along) == len(places):
                    curves.setdefault(curve, []).append(max(along[1:-1]) > max(along[0], along[-1]))
        if not curves:
            raise _NoScoresError(f"a whole curve of {_name(of)}")
        inside = {curve: fmean(found) for curve, found in curves.items()}
        shares = _by_seed(inside)
        n, value, seeds = len(inside), fmean(inside.values()), len(shares)

        def ends(error: float) -> tuple[float, float]:
            low, high = _clopper_pearson(n * value, n, error)
            # Curves of one seed may go together.
            far = 100 * reach(stdev(shares) / math.sqrt(seeds), seeds - 1, error) if seeds > 1 else 100.0
            return min(low, max(0.0, 100 * value - far)), max(high, min(100.0, 100 * value + far))

        (low, high), (lowest, highest) = ends(ERROR), ends(ERROR / tests)
        chance = 100 * (len(places) - 2) / len(places)
        what = f"{_name(of)}: share of curves that peak inside ({chance:.0f} % without any trend)"
        asked = f"above {chance:.0f}"
        found = Finding(what, 100 * value, low, high, lowest, highest, n, "curves", seeds, asked, share=True)
        if seeds < LEAST:
            return "undecided at this size", [found]
        return "held" if low > chance else "not held" if highest < chance else "undecided at this size", [found]


def _clopper_pearson(hits: float, n: int, error: float) -> tuple[float, float]:
    """The interval of a share in percent (Clopper and Pearson 1934)."""
    low = float(betaincinv(hits, n - hits + 1, error / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - error / 2)) if hits < n else 1.0
    return 100 * low, 100 * high


def _by_key(points: Iterable[Point], axes: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The mean score of each combination of ``axes``."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for point in points:
        groups.setdefault(tuple(str(getattr(point, axis)) for axis in axes), []).append(point.score)
    return {key: fmean(scores) for key, scores in groups.items()}


def _by_seed(scores: Mapping[tuple[str, ...], float]) -> list[float]:
    """The mean of each seed, which is the last part of a key."""
    seeds: dict[str, list[float]] = {}
    for key, score in scores.items():
        seeds.setdefault(key[-1], []).append(score)
    return [fmean(own) for own in seeds.values()]


def _finding(
    what: str, value: float, error: float, freedom: float, n: int, tests: int, of: str = "seeds a side, unpaired"
) -> Finding:
    """``error`` is the standard error of ``value``, not a number where there is none."""
    reaches = [math.inf if math.isnan(error) else reach(error, freedom, miss) for miss in (ERROR, ERROR / tests)]
    low, high, lowest, highest = (value + sign * far for far in reaches for sign in (-1, 1))
    return Finding(what, value, low, high, lowest, highest, n, of, seeds=n)


def _welch(what: str, a: Sequence[float], b: Sequence[float], tests: int) -> Finding:
    """Of two sides' means over each of their seeds."""
    error, freedom = welch((stdev(a), len(a)), (stdev(b), len(b)))
    return _finding(what, fmean(a) - fmean(b), error, freedom, min(len(a), len(b)), tests)


def welch(*sides: tuple[float, int]) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom, of deviations and numbers of scores."""
    squares = [(deviation**2 / n, n - 1) for deviation, n in sides]
    whole, parts = sum(square for square, _ in squares), sum(square**2 / free for square, free in squares)
    return math.sqrt(whole), whole**2 / parts if parts else 1.0


def reach(error: float, freedom: float, miss: float = ERROR) -> float:
    """Half of a t-interval that misses in a share of ``miss``; a ``freedom`` without end gives the normal one."""
    return float(stdtrit(freedom, 1 - miss / 2)) * error if error else 0.0


def _asked(kind: str, margin: float, most: float) -> str:
    """What a comparison of ``kind`` asks; no paper states a margin, but some how large a difference is."""
    ours = _points(margin)
    if kind == "about_equal":
        return f"within {ours} either way"
    if kind == "at_most":
        return f"at most {ours}"
    return f"above {ours}" + (f", at most the paper's {most:g}" if most < math.inf else "")


def _points(margin: float) -> str:
    return f"{margin:g} (a margin of ours)" if margin else "0"


def _word(kind: str, found: Finding, margin: float = 0.0, most: float = math.inf) -> Outcome:
    """What one difference says of a comparison of ``kind``."""
    if found.seeds < LEAST:
        return "undecided at this size"
    if kind == "at_most":
        held, contrary = found.high <= margin, found.lowest > margin
    elif kind == "about_equal":
        held = -margin <= found.low and found.high <= margin
        contrary = found.lowest > margin or found.highest < -margin
    else:
        held = margin < found.low and found.high <= most
        contrary = found.highest <= margin or found.lowest > most
    return "held" if held else "not held" if contrary else "undecided at this size"


def _together(words: Sequence[Outcome]) -> Outcome:
    if all(word == "held" for word in words):
        return "held"
    return "not held" if "not held" in words else "undecided at this size"


def _name(selector: Selector) -> str:
    """ "ConsSent-R at 2", "DeCLUTR-small, DeCLUTR-base", "everything"."""
    panel, group, x = (", ".join(filter(None, selector.get(axis, ()))) for axis in AXES)
    subject = f"{group} at {x}" if group and x else group or x
    return ": ".join(filter(None, (panel, subject))) or "everything"


def _contrast(left: Selector, right: Selector) -> str:
    """ "ConsSent-R: 2 − 1": what both sides have, then each side."""
    shared = {axis for axis in left if left[axis] == right.get(axis)}
    sides = [
        _name({axis: values for axis, values in side.items() if axis not in shared}) for side in (left, right)
    ]
    both = _name({axis: left[axis] for axis in shared}) + ": " if shared else ""
    return f"{both}{sides[0]} − {sides[1]}"
