"""Batches as a function of the step: epochs, ranks, workers, held-out, contiguous and length-sorted batches."""

from __future__ import annotations

import sys
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import Batch
from data.errors import UserError
from data.loader import Loader, MultiTaskLoader
from data.randomness import EXAMPLE, FIXED, ORDER, generator
from data.token_format import TokenFormat
from tests.data.samples import FORMAT, Cut

UNITS = [np.arange(100 * i, 100 * i + 50) for i in range(23)]
INDICES = [i for i in range(23) if i != 5]


def loader(batch_size: int = 4, seed: int = 3, rank: int = 0, world: int = 1, stream: int = 0) -> Loader:
    return Loader(
        UNITS, INDICES, Cut(), FORMAT, batch_size=batch_size, seed=seed, rank=rank, world=world, stream=stream
    )


def rows(batch: Batch) -> list[list[int]]:
    assert batch.size == len(batch.tokens["cut"])
    return batch.tokens["cut"].ids.tolist()


def documents(batch: Batch) -> list[int]:
    return [row[0] // 100 for row in rows(batch)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 5))
def test_a_batch_depends_only_on_its_step(steps: list[int], seed: int) -> None:
    reused = loader(seed=seed)
    for step in steps:
        assert rows(reused.batch(step)) == rows(loader(seed=seed).batch(step))


def test_an_epoch_takes_every_document_once() -> None:
    batches = loader(batch_size=2)
    assert batches.batches_per_epoch == 11
    for epoch in range(3):
        taken = [i for step in range(11 * epoch, 11 * epoch + 11) for i in documents(batches.batch(step))]
        assert sorted(taken) == INDICES


def test_no_batch_holds_a_document_twice() -> None:
    batches = loader(batch_size=8)  # 22 documents: each epoch leaves out 6
    for step in range(30):
        assert len(set(documents(batches.batch(step)))) == 8


def test_epochs_seeds_and_visits_differ() -> None:
    batches = loader(batch_size=22)
    first, second = rows(batches.batch(0)), rows(batches.batch(1))
    assert [row[0] // 100 for row in first] != [row[0] // 100 for row in second]
    assert sorted(first) != sorted(second)
    assert sorted(rows(loader(batch_size=22, seed=4).batch(0))) != sorted(first)


@pytest.mark.parametrize("stream", [0, 2])
def test_the_random_keys_of_order_and_examples_are_fixed(stream: int) -> None:
    """Other keys would change the batches of existing runs; stream 0 adds no number to the keys."""
    stream_key = (stream,) if stream else ()

    def expected(order: np.ndarray, *key: int) -> list[list[int]]:
        return [Cut().sample(UNITS[i], FORMAT, generator(*key, i, *stream_key)).tolist() for i in order]

    batches = loader(stream=stream)
    order = generator(ORDER, 3, 1, *stream_key).permutation(INDICES)
    assert rows(batches.batch(5 + 2)) == expected(order[8:12].tolist(), EXAMPLE, 3, 7)
    order = generator(FIXED, *((0, 0, stream) if stream else ())).permutation(INDICES)
    assert rows(batches.fixed(2)[1]) == expected(order[4:8].tolist(), FIXED, 2)


def test_streams_differ_in_order_and_examples() -> None:
    streams = [loader(batch_size=22, stream=stream) for stream in range(3)]
    for batches in ([one.batch(0) for one in streams], [one.fixed(1)[0] for one in streams]):
        orders = [documents(batch) for batch in batches]
        assert len({tuple(order) for order in orders}) == 3
        assert all(sorted(order) == INDICES for order in orders)
        numbers = [{i: row[-1] for i, row in zip(documents(batch), rows(batch), strict=True)} for batch in batches]
        for a, b in combinations(numbers, 2):
            assert sum(a[i] == b[i] for i in INDICES) < 3  # some of 1000 numbers are equal by chance


def test_an_example_does_not_depend_on_its_place_or_batch() -> None:
    by_document = {row[0] // 100: row for row in rows(loader(batch_size=22).batch(0))}
    small_batch = rows(loader(batch_size=4).batch(0))
    assert all(by_document[row[0] // 100] == row for row in small_batch)


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_get_contiguous_rows(world: int) -> None:
    for step in range(12):
        parts = [rows(loader(rank=rank, world=world).batch(step)) for rank in range(world)]
        assert list(chain.from_iterable(parts)) == rows(loader().batch(step))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems fork no workers")
def test_workers_are_forked_on_every_python_version() -> None:
    """Python 3.14 uses a fork server by default, to which the loader would have to be pickled."""
    batches = loader()
    batches.sampler.unpicklable = lambda: None  # type: ignore[attr-defined]
    start_method = torch.multiprocessing.get_start_method()
    torch.multiprocessing.set_start_method("forkserver", force=True)
    try:
        found = [rows(batch) for batch in batches.iterate(0, 3, workers=1)]
    finally:
        torch.multiprocessing.set_start_method(start_method, force=True)
    assert found == [rows(batches.batch(step)) for step in range(3)]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterate_gives_the_batches_of_each_step_with_any_workers(workers: int) -> None:
    state = torch.random.get_rng_state()
    batches = [rows(batch) for batch in loader().iterate(3, 9, workers=workers)]
    assert batches == [rows(loader().batch(step)) for step in range(3, 9)]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_fixed_batches_do_not_depend_on_the_seed() -> None:
    batches = [rows(batch) for batch in loader(batch_size=5).fixed(3)]
    assert batches == [rows(batch) for batch in loader(batch_size=5, seed=9).fixed(3)]
    assert batches[0] != batches[1]
    assert len(loader(batch_size=5).fixed(100)) == 4
    assert loader(batch_size=5).fixed(0) == []
    parts = [loader(batch_size=4, rank=rank, world=2).fixed(1)[0] for rank in range(2)]
    assert rows(parts[0]) + rows(parts[1]) == rows(loader(batch_size=4).fixed(1)[0])


def test_refusals() -> None:
    with pytest.raises(ValueError):
        loader(world=3)
    with pytest.raises(ValueError):
        loader(batch_size=0)
    with pytest.raises(UserError):
        loader(batch_size=32).batch(0)


def held_out(count: int, batch_size: int, rank: int = 0, world: int = 1) -> Loader:
    part = INDICES[:count]
    return Loader(UNITS, part, Cut(), FORMAT, batch_size=batch_size, seed=3, rank=rank, world=world)


def test_held_out_documents_that_do_not_fill_a_batch_make_a_smaller_one() -> None:
    (batch,) = held_out(5, 8).fixed(10)
    assert sorted(documents(batch)) == INDICES[:5]
    for world in (2, 4):
        parts = [held_out(5, 8, rank, world).fixed(10) for rank in range(world)]
        assert [row for (part,) in parts for row in rows(part)] == rows(batch)
    assert rows(held_out(1, 1).fixed(1)[0])
    with pytest.raises(UserError):
        held_out(3, 8, 0, 4).fixed(1)


def test_more_held_out_documents_may_be_required() -> None:
    few = Loader(UNITS, [3, 4, 5], Cut(), FORMAT, batch_size=8, seed=3, units="pairs of fr", least=4)
    with pytest.raises(UserError):
        few.fixed(1)


def two_tasks() -> MultiTaskLoader:
    """Returns a loader whose task b has two of three steps, more documents and larger batches than task a."""
    a = Loader(UNITS, range(6), Cut(), FORMAT, batch_size=2, seed=3)
    b = Loader(UNITS, range(6, 22), Cut(), FORMAT, batch_size=4, seed=3)
    return MultiTaskLoader({"a": a, "b": b}, lambda step: "abb"[step % 3])


def test_each_task_cycles_through_its_own_documents() -> None:
    batches = two_tasks()
    assert batches.batches_per_epoch == 3 + 4
    taken = [documents(batches.batch(step)) for step in range(9)]
    assert sorted(chain(*taken[0::3])) == list(range(6))  # three batches of a: one epoch
    assert sorted(chain(taken[1], taken[2], taken[4], taken[5])) == list(range(6, 22))  # four of b: one epoch


def test_the_task_of_a_step_is_the_same_in_any_worker() -> None:
    batches = two_tasks()
    forward = [rows(batches.batch(step)) for step in range(7)]
    assert [rows(two_tasks().batch(step)) for step in reversed(range(7))] == forward[::-1]
    assert [rows(batch) for batch in two_tasks().iterate(2, 7, workers=2)] == forward[2:]


def test_held_out_batches_cover_every_task() -> None:
    sizes = [batch.size for batch in two_tasks().fixed(2)]
    assert sizes == [2, 2, 4, 4]


def test_mean_tokens_weights_tasks_by_their_share_of_steps() -> None:
    tasks = two_tasks()
    a, b = (loader.mean_tokens(3) for loader in tasks.loaders.values())
    assert a == sum(batch.n_tokens for batch in tasks.loaders["a"].fixed(3)) / 3
    assert tasks.mean_tokens(3) == pytest.approx((334 * a + 666 * b) / 1000)  # steps 0, 3, ..., 999 are a's


TWO_LEFT_OUT = [i for i in range(23) if i not in (5, 11)]


def contiguous(
    batch_size: int, seed: int = 3, rank: int = 0, world: int = 1, indices: list[int] = TWO_LEFT_OUT
) -> Loader:
    return Loader(
        UNITS, indices, Cut(), FORMAT, batch_size=batch_size, seed=seed, rank=rank, world=world, contiguous=True
    )


def positions(loader: Loader, step: int) -> list[int]:
    """Returns the positions of a batch's documents in ``TWO_LEFT_OUT``."""
    return [TWO_LEFT_OUT.index(row[0] // 100) for row in loader.batch(step).tokens["cut"].ids.tolist()]


@settings(max_examples=40)
@given(st.integers(1, 21), st.integers(0, 60), st.integers(0, 5))
def test_a_contiguous_batch_holds_consecutive_documents(size: int, step: int, seed: int) -> None:
    found = positions(contiguous(size, seed), step)
    assert found == [(found[0] + i) % 21 for i in range(size)]


@pytest.mark.parametrize("size", [4, 7])
def test_contiguous_epochs_take_each_document_once_with_shifted_boundaries(size: int) -> None:
    batches, count = contiguous(size), 21 // size
    orders = set()
    for epoch in range(60):
        taken = [position for step in range(count) for position in positions(batches, epoch * count + step)]
        assert len({*taken}) == len(taken) == count * size
        orders.add(tuple(taken[::size]))
    starts = {(first + start) % 21 for first in range(size) for start in range(0, count * size, size)}
    assert {first for order in orders for first in order} == starts and len(orders) > 20


def test_processes_share_a_contiguous_batch_in_order() -> None:
    undivided = contiguous(6)
    for step in range(5):
        parts = [positions(contiguous(6, rank=rank, world=3), step) for rank in range(3)]
        assert [position for part in parts for position in part] == positions(undivided, step)


def test_contiguous_held_out_batches_hold_consecutive_documents() -> None:
    for seed in (1, 2):
        taken = [batch.tokens["cut"].ids[:, 0] // 100 for batch in contiguous(3, seed).fixed(9)]
        found = [[TWO_LEFT_OUT.index(int(document)) for document in batch] for batch in taken]
        assert len(found) == 7 and sorted(found) != found
        assert all(batch == list(range(batch[0], batch[0] + 3)) for batch in found)
    [small] = contiguous(8, indices=TWO_LEFT_OUT[:3]).fixed(2)
    assert (small.tokens["cut"].ids[:, 0] // 100).tolist() == [0, 1, 2]


LENGTHS = np.random.default_rng(0).permutation(np.repeat([3, 5, 9, 20, 40], 200))  # of 1000 units


def by_length(seed: int = 3, rank: int = 0, world: int = 1, batch_size: int = 8, count: int = 1000) -> Loader:
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
    batches = by_length()
    for epoch in range(2):
        taken = [documents(batches.batch(step)) for step in range(125 * epoch, 125 * (epoch + 1))]
        assert sorted(chain(*taken)) == list(range(1000))
    again = [documents(by_length().batch(step)) for step in (249, 0, 130)]
    assert again == [documents(batches.batch(step)) for step in (249, 0, 130)]


def test_batches_by_length_save_padding_and_stay_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.loader.POOL", 40)
    taken = [documents(by_length().batch(step)) for step in range(125)]
    unpadded = int(LENGTHS.sum())
    padded = sum(8 * int(LENGTHS[batch].max()) for batch in taken)
    assert padded < 1.1 * unpadded < 1.8 * unpadded < 8 * sum(LENGTHS[i : i + 8].max() for i in range(0, 1000, 8))
    longest = [int(LENGTHS[batch].max()) for batch in taken]
    rises = sum(a < b for a, b in pairwise(longest))
    assert 30 < rises < 70  # the batches are not sorted by length
    other = [documents(by_length(seed=4).batch(step)) for step in range(125)]
    batches = {frozenset(batch) for batch in taken}
    assert not batches & {frozenset(batch) for batch in other}


def test_batches_by_length_are_divided_among_ranks_and_held_out() -> None:
    for step in (0, 7, 124):
        parts = [documents(by_length(rank=rank, world=2).batch(step)) for rank in range(2)]
        assert [*parts[0], *parts[1]] == documents(by_length().batch(step))
    assert by_length(batch_size=7, count=20).batches_per_epoch == 2
    taken = [documents(by_length(batch_size=7, count=20).batch(step)) for step in range(2)]
    assert len({*chain(*taken)}) == 14
    assert len(by_length().fixed(2)) == 2


def test_mean_tokens_is_over_all_lengths() -> None:
    """Successive batches of an epoch may all be short or all be long, so that their mean would be far off."""

    class Uncut(Cut):
        def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
            return unit[: LENGTHS[unit[0] // 100]]

    units = [np.full(50, 100 * i) for i in range(1000)]
    batches = Loader(units, range(1000), Uncut(), FORMAT, batch_size=50, seed=3, lengths=LENGTHS)
    expected = 50 * LENGTHS.mean()
    assert batches.mean_tokens(4) == pytest.approx(expected, rel=0.15)
    means = [
        sum(batches.batch(step).n_tokens for step in range(first, first + 4)) / 4 for first in range(0, 20, 4)
    ]
    assert max(abs(mean / expected - 1) for mean in means) > 0.2
