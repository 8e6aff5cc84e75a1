"""Comparisons that claims are made of: each takes selections of scores and returns the evidence.

    Claim("a2", "two anchors beat one", "5.2", lambda scores: greater(scores(x="2"), scores(x="1")))

How intervals and outcomes are computed is described in analysis.figures.verdicts. ``each="x"`` (or "group",
"panel") compares at every place of that axis separately, so that a claim of one difference becomes one of several:

    greater(scores(group="DeCLUTR"), scores(group="MLM"), each="x")      # at every x
    greater(scores(x="3"), scores(x=["1", "2"]), each="x")               # above 1, and above 2

Scores without a place on the x axis (x is "") are a level, which is compared with every place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev

from analysis.figures.scores import AXES, NoScoresError, Point, Scores, Selection
from analysis.figures.verdicts import Condition, Evidence, Finding, Interval, share_interval, t_interval
from analysis.reporting.intervals import LEAST, reach, welch

Check = Callable[[Scores], Evidence]


def greater(
    left: Selection, *rights: Selection, margin: float = 0.0, most: float = math.inf, each: str = ""
) -> Evidence:
    """Claims that ``left`` is above each of ``rights`` by more than ``margin`` points, and by at most ``most``.

    A selection of several places or groups counts by its mean: to compare with each of them, pass one selection
    for each (or ``each``, see the module).
    """
    text = _stated(f"above {margin:g}", margin) + (f", at most the paper's {most:g}" if most < math.inf else "")
    condition = Condition(
        text,
        lambda low, high: margin < low and high <= most,
        lambda low, high: high <= margin or low > most,
    )
    return _compared(left, rights, condition, each)


def at_most(left: Selection, right: Selection, margin: float = 0.0, each: str = "") -> Evidence:
    """Claims that ``left`` is not above ``right`` by more than ``margin`` points."""
    condition = Condition(
        _stated(f"at most {margin:g}", margin), lambda _, high: high <= margin, lambda low, _: low > margin
    )
    return _compared(left, [right], condition, each)


def about_equal(left: Selection, right: Selection, margin: float, each: str = "") -> Evidence:
    """Claims that ``left`` is within ``margin`` points of ``right``."""
    condition = Condition(
        _stated(f"within {margin:g} either way", margin),
        lambda low, high: -margin <= low and high <= margin,
        lambda low, high: low > margin or high < -margin,
    )
    return _compared(left, [right], condition, each)


def best(at: Selection, of: Selection) -> Evidence:
    """Claims that ``at`` is above every other (group, x) of ``of``; ``at`` must be of one group.

    Raises:
        ValueError: if ``at`` is of several groups, whose mean would be compared with single ones.
    """
    if (panel := of.get("panel")) and at.get("panel") is None:
        at = Selection(at.scores, (("panel", panel), *at.chosen))
    chosen = {(point.group, point.x) for point in at.points}
    if len({group for group, _ in chosen}) > 1:
        raise ValueError(f"best takes one group, and {at} is of several: compare them by greater.")
    rest = dict.fromkeys((point.group, point.x) for point in of.points)
    others = [of.at(group=group, x=x) for group, x in rest if (group, x) not in chosen]
    if not others:
        raise NoScoresError(f"anything beside {at}")
    return replace(greater(at, *others), sides=(of, at))


def rising(of: Selection, margin: float = 0.0) -> Evidence:
    """Claims that scores rise along x: the last clearly above the first, and no step down by more than ``margin``.

    A single step that is clearly down refutes it.
    """
    places = of.names("x")
    if len(places) < 2:
        raise NoScoresError(f"{of} at two places of the x axis")
    steps = list(pairwise(places))
    whole = greater(of.at(x=places[-1]), of.at(x=places[0])).findings
    condition = Condition(
        _stated(f"no clear step down, and none by more than {margin:g}", margin),
        lambda low, _: low >= -margin,
        lambda _, high: high < 0,
    )
    parts = [_difference(of.at(x=after), of.at(x=before), condition) for before, after in steps if len(steps) > 1]
    findings = [*whole, *parts]
    return Evidence(tuple(replace(one, tests=len(findings)) for one in findings), (of,))


def peak_inside(of: Selection) -> Evidence:
    """Claims that curves of ``of`` tend to have their highest score inside the range of x.

    Their share is compared with that of the inner places, which curves without any trend give. A curve is a
    trained method (group, setting, seed), which counts by its mean over panels. The interval is the wider of
    Clopper and Pearson's and the t-interval over the shares of the seeds, as curves of one seed may go together.
    """
    places = of.names("x")
    if len(places) < 3:
        raise NoScoresError(f"{of} at three places of the x axis")
    curves: dict[tuple[str, ...], list[bool]] = {}
    for panel in of.names("panel"):
        scores = _by_key(of.at(panel=panel).points, ["group", "setting", "seed", "x"])
        for curve in dict.fromkeys(key[:-1] for key in scores):
            along = [scores[(*curve, place)] for place in places if (*curve, place) in scores]
            if len(along) == len(places):
                curves.setdefault(curve, []).append(max(along[1:-1]) > max(along[0], along[-1]))
    if not curves:
        raise NoScoresError(f"a whole curve of {of}")
    inside = {curve: fmean(found) for curve, found in curves.items()}
    shares = _by_seed(inside)
    n, value, seeds = len(inside), fmean(inside.values()), len(shares)

    def interval(miss: float) -> Interval:
        low, high = share_interval(n * value, n, miss)
        far = 100 * reach(stdev(shares) / math.sqrt(seeds), seeds - 1, miss) if seeds > 1 else 100.0
        return min(low, max(0.0, 100 * value - far)), max(high, min(100.0, 100 * value + far))

    chance = 100 * (len(places) - 2) / len(places)
    what = f"{of}: share of curves that peak inside ({chance:.0f} % without any trend)"
    condition = Condition(f"above {chance:.0f}", lambda low, _: low > chance, lambda _, high: high < chance)
    finding = Finding(what, 100 * value, interval, n, "curves", seeds, condition, share=True)
    return Evidence((finding,), (of,))


def all_of(*parts: Evidence) -> Evidence:
    """Claims all of ``parts``."""
    findings = (replace(one, tests=one.tests * len(parts)) for part in parts for one in part.findings)
    return Evidence(tuple(findings), tuple(side for part in parts for side in part.sides))


def above(panel: str, rows: str | Sequence[str], others: str | Sequence[str], each: str = "") -> Check:
    """Returns the claim that ``rows`` are ``greater`` than ``others`` on the scores of ``panel``."""
    return lambda scores: greater(scores(panel=panel, group=rows), scores(panel=panel, group=others), each=each)


def _compared(left: Selection, rights: Sequence[Selection], condition: Condition, each: str) -> Evidence:
    pairs = [(left, right) for right in rights]
    if each:
        pairs = [part for pair in pairs for part in _separately(*pair, each)]
    findings = (_difference(*pair, condition) for pair in pairs)
    return Evidence(tuple(replace(one, tests=len(pairs)) for one in findings), (left, *rights))


def _separately(left: Selection, right: Selection, axis: str) -> list[tuple[Selection, Selection]]:
    """The two sides at each name of ``axis``."""
    left_level, right_level = (axis == "x" and side.is_level for side in (left, right))
    if len(right.get(axis) or ()) > 1 or (left_level and right.get(axis) is None):
        return [(left, right.at(**{axis: name})) for name in right.names(axis)]
    both = right.get(axis) is None and not right_level
    names = left.names(axis)
    return [(left.at(**{axis: name}), right.at(**{axis: name}) if both else right) for name in names]


def _difference(left: Selection, right: Selection, condition: Condition) -> Finding:
    free = [axis for axis in AXES if left.get(axis) == right.get(axis)]  # both name the same, or neither does
    if "x" in free and left.is_level != right.is_level:
        free.remove("x")
    a, b = (_by_key(side.points, [*free, "setting", "seed"]) for side in (left, right))
    differences = _by_seed({key: a[key] - b[key] for key in a if key in b})
    ours, theirs = _by_seed(a), _by_seed(b)
    n, fewest = len(differences), min(len(ours), len(theirs))
    if n == 0 or n < 2 <= fewest or n < LEAST <= fewest:
        value, n, of = fmean(ours) - fmean(theirs), fewest, "seeds a side, unpaired"
        error, freedom = math.nan, 0.0
        if fewest > 1:
            error, freedom = welch((stdev(ours), len(ours)), (stdev(theirs), len(theirs)))
    else:
        value, of = fmean(differences), left.scores.replicates
        error, freedom = stdev(differences) / math.sqrt(n) if n > 1 else math.nan, n - 1
    return Finding(_contrast(left, right), value, t_interval(value, error, freedom), n, of, n, condition)


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


def _stated(text: str, margin: float) -> str:
    """Marks a condition with a margin as the suite's: no paper states one."""
    return f"{text} (margin set by this suite)" if margin else text


def _contrast(left: Selection, right: Selection) -> str:
    """Names a difference, "ConsSent-R: 2 − 1": what both sides have, then each side."""
    shared = [axis for axis in AXES if left.get(axis) is not None and left.get(axis) == right.get(axis)]
    rest = [axis for axis in AXES if axis not in shared]
    both = f"{left.only(shared)}: " if shared else ""
    return f"{both}{left.only(rest)} − {right.only(rest)}"
