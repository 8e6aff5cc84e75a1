"""t-intervals and Welch's standard error, against scipy."""

from __future__ import annotations

import math
from statistics import stdev

import pytest
from scipy import stats

from analysis.reporting.intervals import reach, welch

FIRST, SECOND = [61.2, 63.0, 62.1, 64.4, 60.9], [59.0, 60.2, 61.5]


def test_the_interval_of_a_mean_equals_scipys() -> None:
    error = stdev(FIRST) / math.sqrt(len(FIRST))
    low, high = stats.t.interval(0.95, len(FIRST) - 1, loc=0, scale=error)
    assert reach(error, len(FIRST) - 1) == pytest.approx(high) == pytest.approx(-low)
    assert reach(error, math.inf) == pytest.approx(1.959964 * error)
    assert reach(0.0, 1) == 0


def test_the_interval_of_a_difference_equals_welchs_test() -> None:
    error, freedom = welch((stdev(FIRST), len(FIRST)), (stdev(SECOND), len(SECOND)))
    found = stats.ttest_ind(FIRST, SECOND, equal_var=False)
    assert freedom == pytest.approx(found.df)
    low, high = found.confidence_interval(0.95)
    assert 2 * reach(error, freedom) == pytest.approx(high - low)
