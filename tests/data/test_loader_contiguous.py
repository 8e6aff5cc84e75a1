"""Batches of neighbours: runs in the corpus' order, whatever the epoch, the process or the measurement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.loader import Loader
from tests.data.samples import FORMAT, Cut

UNITS = [np.arange(100 * i, 100 * i + 50) for i in range(23)]
INDICES = [i for i in range(23) if i not in (5, 11)]


def loader(batch_size: int, seed: int = 3, rank: int = 0, world: int = 1, indices: list[int] = INDICES) -> Loader:
    return Loader(
        UNITS, indices, Cut(), FORMAT, batch_size=batch_size, seed=seed, rank=rank, world=world, contiguous=True
    )


def places(loader: Loader, step: int) -> list[int]:
    """Where the documents of a batch stand in ``INDICES``."""
    return [INDICES.index(row[0] // 100) for row in loader.batch(step).tokens["cut"].ids.tolist()]


@settings(max_examples=40)
@given(st.integers(1, 21), st.integers(0, 60), st.integers(0, 5))
def test_a_batch_is_a_run(size: int, step: int, seed: int) -> None:
    found = places(loader(size, seed), step)
    assert found == [(found[0] + i) % 21 for i in range(size)]


@pytest.mark.parametrize("size", [4, 7])
def test_an_epoch_takes_each_once_and_its_borders_move(size: int) -> None:
    whole, count = loader(size), 21 // size
    orders = set()
    for epoch in range(60):
        taken = [place for step in range(count) for place in places(whole, epoch * count + step)]
        assert len({*taken}) == len(taken) == count * size
        orders.add(tuple(taken[::size]))
    starts = {(first + place) % 21 for first in range(size) for place in range(0, count * size, size)}
    assert {first for order in orders for first in order} == starts and len(orders) > 20


def test_processes_share_a_run_in_their_order() -> None:
    one = loader(6)
    for step in range(5):
        parts = [places(loader(6, rank=rank, world=3), step) for rank in range(3)]
        assert [place for part in parts for place in part] == places(one, step)


def test_held_out_batches_are_runs() -> None:
    for seed in (1, 2):
        rows = [batch.tokens["cut"].ids[:, 0] // 100 for batch in loader(3, seed).fixed(9)]
        found = [[INDICES.index(int(place)) for place in row] for row in rows]
        assert len(found) == 7 and sorted(found) != found
        assert all(row == list(range(row[0], row[0] + 3)) for row in found)
    [small] = loader(8, indices=INDICES[:3]).fixed(2)
    assert (small.tokens["cut"].ids[:, 0] // 100).tolist() == [0, 1, 2]
