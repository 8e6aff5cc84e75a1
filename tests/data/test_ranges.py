"""Ranges in annotations: the values at both bounds are valid, those beyond them are not; paths must exist."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from data import ranges

BOUNDS: dict[str, tuple[list[Any], list[Any]]] = {
    "Size": ([1, 2**20], [0, 2**20 + 1]),
    "AtLeast2": ([2, 2**20], [1, 2**20 + 1]),
    "AtLeast3": ([3, 2**20], [2, 2**20 + 1]),
    "AtLeast6": ([6, 2**20], [5, 2**20 + 1]),
    "AtLeast8": ([8, 2**20], [7, 2**20 + 1]),
    "SizeOrZero": ([0, 2**20], [-1, 2**20 + 1]),
    "Width": ([1, 2**16], [0, 2**16 + 1]),
    "Count": ([1, 10**15], [0, 10**15 + 1]),
    "Seed": ([0, 2**32 - 1], [-1, 2**32]),
    "Threads": ([1, 1024], [0, 1025]),
    "Positive": ([1e-9, 1e9], [0.0, -1.0]),
    "Weight": ([0.0, 1e9], [-1e-9]),
    "Share": ([0.0, 1.0], [-1e-9, 1.1]),
    "Proportion": ([1e-9, 0.9], [0.0, 1.0]),
    "Below1": ([0.0, 0.9], [-1e-9, 1.0]),
    "Factor": ([1e-9, 1.0], [0.0, 1.1]),
    "Existing": ([__file__, "~"], ["no/such"]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_values_at_the_bounds_are_accepted_and_those_beyond_refused(name: str) -> None:
    kind: Any = getattr(ranges, name)
    inside, outside = BOUNDS[name]
    for value in inside:
        TypeAdapter(kind).validate_python(value, strict=True)
    for value in outside:
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(value, strict=True)


def test_every_range_is_tested() -> None:
    assert {name for name, value in vars(ranges).items() if hasattr(value, "__metadata__")} == set(BOUNDS)
