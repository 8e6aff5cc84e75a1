"""Batches as a function of the step: epochs, ranks, workers, held-out, contiguous and length-sorted batches."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.batch import Batch
from data.errors import UserError
from data.loader import Loader, MultiTaskLoader
from data.randomness import EXAMPLE, FIXED, ORDER, generator
from tests.data.samples import FORMAT, Cut

UNITS = [np.arange(100 * i, 100 * i + 50) for i in range(1000)]
INDICES = [i for i in range(23) if i not in (5, 11)]
LENGTHS = np.random.default_rng(0).permutation(np.repeat([3, 5, 9, 20, 40], 200))  # of ``UNITS``


def loader(batch_size: int = 4, indices: Any = INDICES, **options: Any) -> Loader:
    return Loader(UNITS, indices, Cut(), FORMAT, batch_size=batch_size, **{"seed": 3, **options})


def contiguous(batch_size: int, **options: Any) -> Loader:
    return loader(batch_size, contiguous=True, **options)


def by_length(**options: Any) -> Loader:
    return loader(8, range(1000), lengths=LENGTHS, **options)


def rows(batch: Batch) -> list[list[int]]:
    assert batch.size == len(batch.tokens["cut"])
    return batch.tokens["cut"].ids.tolist()


def documents(batch: Batch) -> list[int]:
    return [row[0] // 100 for row in rows(batch)]


def epoch(loader: Loader, number: int) -> list[list[int]]:
    """Returns the documents of each batch of an epoch."""
    count = loader.batches_per_epoch
    return [documents(loader.batch(step)) for step in range(number * count, (number + 1) * count)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 5))
def test_a_batch_depends_only_on_its_step(steps: list[int], seed: int) -> None:
    reused = loader(seed=seed)
    for step in steps:
        assert rows(reused.batch(step)) == rows(loader(seed=seed).batch(step))


@pytest.mark.parametrize(
    "batches", [loader(3), contiguous(3), by_length()], ids=["random", "contiguous", "length"]
)
def test_an_epoch_takes_every_document_once(batches: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.loader.POOL", 20)
    for number in range(3):
        assert sorted(chain(*epoch(batches, number))) == list(batches.indices)


@pytest.mark.parametrize("stream", [0, 2])
def test_the_random_keys_of_order_and_examples_are_fixed(stream: int) -> None:
    """Other keys would change the batches of existing runs; stream 0 adds no number to the keys."""
    stream_key = (stream,) if stream else ()

    def examples(order: np.ndarray, *key: int) -> list[list[int]]:
        return [Cut().sample(UNITS[i], FORMAT, generator(*key, i, *stream_key)).tolist() for i in order.tolist()]

    batches = loader(stream=stream)
    order = generator(ORDER, 3, 1, *stream_key).permutation(INDICES)
    assert rows(batches.batch(5 + 2)) == examples(order[8:12], EXAMPLE, 3, 7)
    order = generator(FIXED, *((0, 0, stream) if stream else ())).permutation(INDICES)
    assert rows(batches.fixed_batches(2)[1]) == examples(order[4:8], FIXED, 2)


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_get_contiguous_rows(world: int) -> None:
    ranks = [loader(rank=rank, world=world) for rank in range(world)]
    for step in range(12):
        assert list(chain(*(rows(rank.batch(step)) for rank in ranks))) == rows(loader().batch(step))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterate_gives_the_batches_of_each_step_with_any_workers(workers: int) -> None:
    state = torch.random.get_rng_state()
    batches = [rows(batch) for batch in loader().iterate(3, 9, workers=workers)]
    assert batches == [rows(loader().batch(step)) for step in range(3, 9)]
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("count", [5, 21])
def test_held_out_documents_that_do_not_fill_a_batch_make_a_smaller_one(count: int) -> None:
    part = INDICES[:count]
    batch = loader(8, part).fixed_batches(10)[0]
    assert len(rows(batch)) == min(8, count) and {*documents(batch)} <= {*part}
    for world in (2, 4):
        shares = [rows(loader(8, part, rank=rank, world=world).fixed_batches(10)[0]) for rank in range(world)]
        assert list(chain(*shares)) == rows(batch)
    with pytest.raises(UserError):
        loader(8, part[:3], world=4).fixed_batches(1)


def test_each_task_cycles_through_its_own_documents() -> None:
    """Task b has two of three steps, more documents and larger batches than task a."""
    tasks = {"a": loader(2, range(6)), "b": loader(4, range(6, 22))}
    batches = MultiTaskLoader(tasks, lambda step, seed: "abb"[(step + seed) % 3], 3)
    assert batches.batches_per_epoch == 3 + 4
    numbers = [documents(batches.batch(step)) for step in range(9)]
    assert sorted(chain(*numbers[0::3])) == list(range(6))  # three batches of a: one epoch
    assert sorted(chain(numbers[1], numbers[2], numbers[4], numbers[5])) == list(range(6, 22))  # four of b
    seeds = [MultiTaskLoader(tasks, lambda step, seed: "ab"[seed], seed) for seed in (0, 1)]
    assert len({each.expectation(lambda batch: batch.size, 1) for each in seeds}) == 1  # runs of one length


@pytest.mark.parametrize("size", [4, 7])
def test_contiguous_batches_hold_consecutive_documents_and_their_boundaries_move(size: int) -> None:
    batches, count = contiguous(size), 21 // size
    epochs = [epoch(batches, number) for number in range(60)]
    assert all(len({*chain(*each)}) == count * size for each in epochs)
    firsts = {tuple(INDICES.index(batch[0]) for batch in each) for each in epochs}
    starts = {(first + start) % 21 for first in range(size) for start in range(0, count * size, size)}
    assert {*chain(*firsts)} == starts and len(firsts) > 20
    for batch in chain(*epochs):
        place = INDICES.index(batch[0])
        assert batch == [INDICES[(place + i) % 21] for i in range(size)]


def test_contiguous_held_out_batches_hold_consecutive_documents() -> None:
    batches = [documents(batch) for batch in contiguous(3).fixed_batches(9)]
    runs = [INDICES[i : i + 3] for i in range(0, 21, 3)]
    assert sorted(batches) == runs != batches
    copies = contiguous(3, indices=[*np.repeat([0, 1, 2], 3), 3, 3, 4])  # of a corpus with a weight
    assert all(
        first != second
        for batch in chain(*(epoch(copies, 0), epoch(copies, 1)))
        for first, second in pairwise(batch)
    )
    [small] = contiguous(8, indices=INDICES[:3]).fixed_batches(2)
    assert documents(small) == INDICES[:3]


def test_batches_by_length_save_padding_and_stay_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.loader.POOL", 40)
    batches = epoch(by_length(), 0)
    unpadded = int(LENGTHS.sum())
    longest = [int(LENGTHS[batch].max()) for batch in batches]
    assert 8 * sum(longest) < 1.1 * unpadded
    assert 1.8 * unpadded < 8 * sum(LENGTHS[i : i + 8].max() for i in range(0, 1000, 8))
    assert 30 < sum(a < b for a, b in pairwise(longest)) < 70  # the batches are not sorted by length
    assert not {*map(frozenset, batches)} & {*map(frozenset, epoch(by_length(seed=4), 0))}
