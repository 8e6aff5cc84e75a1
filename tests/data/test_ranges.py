"""Ranges of numbers: both ends are taken, and what lies beyond is named with its bound."""

from __future__ import annotations

import pytest

from data.ranges import MOST, require_range


def test_ends_and_defaults_pass() -> None:
    for value in (1, MOST, None):
        require_range("rows", value, 1)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (0, "rows must be at least 1. Got 0 instead."),
        (MOST + 1, f"rows must be at most {MOST}. Got {MOST + 1} instead."),
        (float("nan"), "rows must be at least 1. Got nan instead."),
    ],
)
def test_what_lies_beyond_is_refused(value: float, line: str) -> None:
    with pytest.raises(ValueError) as refused:
        require_range("rows", value, 1)
    assert str(refused.value) == line
