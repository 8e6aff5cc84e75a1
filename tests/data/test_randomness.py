"""No two purposes share a stream of random numbers."""

from __future__ import annotations

from itertools import combinations

from data import randomness
from data.randomness import generator

PURPOSES = {name: value for name, value in vars(randomness).items() if name.isupper()}


def test_generators_of_different_purposes_differ() -> None:
    assert all(value > 0 for value in PURPOSES.values())
    for first, second in combinations(PURPOSES.values(), 2):
        assert generator(first, 0, 0).integers(2**62) != generator(second).integers(2**62)
