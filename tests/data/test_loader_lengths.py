"""Batches of units about as long as each other: whole epochs, little padding, still random."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest

from data.batch import Batch
from data.loader import Loader
from data.token_format import TokenFormat
from tests.data.samples import FORMAT, Cut

LENGTHS = np.random.default_rng(0).permutation(np.repeat([3, 5, 9, 20, 40], 200))  # of a thousand units


def documents(batch: Batch) -> list[int]:
    return [row[0] // 100 for row in batch.tokens["cut"].ids.tolist()]


def buckets(seed: int = 3, rank: int = 0, world: int = 1, batch_size: int = 8, count: int = 1000) -> Loader:
    units = [np.full(50, 100 * i) for i in range(count)]
    lengths = LENGTHS[:count]
    return Loader(
        units,
        range(count),
        Cut(),
        FORMAT,
        batch_size=batch_size,
        seed=seed,
        rank=rank,
        world=world,
        lengths=lengths,
    )


def test_batches_by_length_hold_every_unit_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.loader.POOL", 20)
    one = buckets()
    for epoch in range(2):
        taken = [documents(one.batch(step)) for step in range(125 * epoch, 125 * (epoch + 1))]
        assert sorted(chain(*taken)) == list(range(1000))
    again = [documents(buckets().batch(step)) for step in (249, 0, 130)]
    assert again == [documents(one.batch(step)) for step in (249, 0, 130)]


def test_batches_by_length_save_padding_and_stay_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.loader.POOL", 40)
    taken = [documents(buckets().batch(step)) for step in range(125)]
    real = int(LENGTHS.sum())
    padded = sum(8 * int(LENGTHS[batch].max()) for batch in taken)
    assert padded < 1.1 * real < 1.8 * real < 8 * sum(LENGTHS[i : i + 8].max() for i in range(0, 1000, 8))
    longest = [int(LENGTHS[batch].max()) for batch in taken]
    rises = sum(a < b for a, b in pairwise(longest))
    assert 30 < rises < 70  # neither sorted nor the same
    other = [documents(buckets(seed=4).batch(step)) for step in range(125)]
    company = {frozenset(batch) for batch in taken}
    assert not company & {frozenset(batch) for batch in other}


def test_shares_and_held_out_batches_by_length() -> None:
    for step in (0, 7, 124):
        parts = [documents(buckets(rank=rank, world=2).batch(step)) for rank in range(2)]
        assert [*parts[0], *parts[1]] == documents(buckets().batch(step))
    assert buckets(batch_size=7, count=20).batches_per_epoch == 2
    taken = [documents(buckets(batch_size=7, count=20).batch(step)) for step in range(2)]
    assert len({*chain(*taken)}) == 14
    assert len(buckets().fixed(2)) == 2


def test_mean_tokens_is_over_all_lengths() -> None:
    """The first batches of a training are of a length each, and may all be short, or long, ones."""

    class Whole(Cut):
        def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
            return unit[: LENGTHS[unit[0] // 100]]

    units = [np.full(50, 100 * i) for i in range(1000)]
    one = Loader(units, range(1000), Whole(), FORMAT, batch_size=50, seed=3, lengths=LENGTHS)
    right = 50 * LENGTHS.mean()
    assert one.mean_tokens(4) == pytest.approx(right, rel=0.15)
    four = [sum(one.batch(step).n_tokens for step in range(first, first + 4)) / 4 for first in range(0, 20, 4)]
    assert max(abs(found / right - 1) for found in four) > 0.2
