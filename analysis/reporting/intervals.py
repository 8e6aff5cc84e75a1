"""Half-widths of t-intervals and Welch's standard error, for means over seeds."""

from __future__ import annotations

import math

ERROR = 0.05  # probability that an interval misses the true value
LEAST = 3  # minimum number of seeds: two equal scores may be a coincidence


def welch(*sides: tuple[float, int]) -> tuple[float, float]:
    """Returns the standard error of a difference of means and its degrees of freedom.

    Args:
        sides: standard deviation and number of scores of each side.
    """
    squares = [(deviation**2 / n, n - 1) for deviation, n in sides]
    whole, parts = sum(square for square, _ in squares), sum(square**2 / free for square, free in squares)
    return math.sqrt(whole), whole**2 / parts if parts else 1.0


def reach(error: float, freedom: float, miss: float = ERROR) -> float:
    """Returns half the width of a t-interval that misses the true value with probability ``miss``.

    With infinite ``freedom`` it is the normal interval's half-width.
    """
    from scipy.special import stdtrit  # late: takes half a second, and arguments are checked first

    return float(stdtrit(freedom, 1 - miss / 2)) * error if error else 0.0
