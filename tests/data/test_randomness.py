"""Generators depend only on their keys, and no two purposes share a stream."""

from __future__ import annotations

from itertools import combinations

from data import randomness
from data.randomness import generator

PURPOSES = {name: value for name, value in vars(randomness).items() if name.isupper()}


def test_a_generator_depends_only_on_its_key() -> None:
    assert generator(1, 2, 3).integers(2**62) == generator(1, 2, 3).integers(2**62)
    # Trailing zeros of short keys are ignored, so purposes must come first.
    assert generator(3, 0).integers(2**62) == generator(3).integers(2**62)


def test_generators_of_different_purposes_differ() -> None:
    assert all(value > 0 for value in PURPOSES.values())
    for one, other in combinations(PURPOSES.values(), 2):
        assert one != other
        assert generator(one, 0, 0).integers(2**62) != generator(other).integers(2**62)
