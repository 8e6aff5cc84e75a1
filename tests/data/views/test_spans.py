"""The span sampler, compared with its definition by enumeration and by properties."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.randomness import generator
from data.views.spans import SpanSampler, grid_starts, uniform_starts
from tests import oracles


@st.composite
def samplers(draw: st.DrawFn) -> SpanSampler:
    low = draw(st.integers(1, 20))
    high = draw(st.integers(low, 40))
    return SpanSampler(
        anchors_per_document=draw(st.integers(1, 4)),
        positives_per_anchor=draw(st.integers(1, 3)),
        min_length=low,
        max_length=high,
        gap=draw(st.none() | st.integers(max(1, high - low), 3 * high)),
        placement=draw(st.sampled_from(["uniform", "grid"])),
        strategy=draw(st.sampled_from(["all", "adjacent", "subsuming"])),
    )


@settings(max_examples=400)
@given(samplers(), st.integers(0, 60), st.integers(0, 2**32))
def test_spans_satisfy_their_definition(sampler: SpanSampler, room: int, seed: int) -> None:
    n = sampler.min_tokens + room  # with room 0, a document of the minimum length
    anchors, positives = sampler.draw(n, generator(seed))
    assert len(anchors) == sampler.anchors_per_document
    assert [len(group) for group in positives] == [sampler.positives_per_anchor] * sampler.anchors_per_document
    for anchor, group in zip(anchors, positives, strict=True):
        assert 0 <= anchor.start < anchor.end <= n
        assert sampler.min_length <= anchor.end - anchor.start <= sampler.max_length
        for positive in group:
            length = positive.end - positive.start
            assert 0 <= positive.start < positive.end <= n
            assert 1 <= length <= sampler.max_length
            match sampler.strategy:
                case "subsuming":
                    assert anchor.start <= positive.start and positive.end <= anchor.end
                case "adjacent":
                    assert positive.end == anchor.start or positive.start == anchor.end
                    widest = max(anchor.start, n - anchor.end)
                    assert length >= min(sampler.min_length, widest)
                case "all":
                    assert anchor.start - length <= positive.start <= anchor.end
                    assert length >= sampler.min_length
    if sampler.placement == "uniform":
        starts = [anchor.start for anchor in anchors]
        assert all(b - a >= sampler.least_gap for a, b in pairwise(starts))
    else:  # grid, as in the published program: no two anchors share a block
        blocks = [anchor.start // sampler.max_length for anchor in anchors]
        assert len(set(blocks)) == len(blocks)


def test_mean_lengths_at_the_defaults() -> None:
    sampler = SpanSampler(anchors_per_document=1, positives_per_anchor=1)
    rng = generator(0)
    anchors, positives = zip(*(sampler.draw(5000, rng) for _ in range(20_000)), strict=True)
    assert np.mean([anchor.end - anchor.start for (anchor,) in anchors]) == pytest.approx(352, abs=2)
    assert np.mean([positive.end - positive.start for ((positive,),) in positives]) == pytest.approx(192, abs=2)


@pytest.mark.parametrize(("n", "length", "anchors", "gap"), [(40, 10, 1, 20), (28, 6, 3, 3), (28, 6, 3, 8)])
def test_starts_are_uniform_over_all_placements(n: int, length: int, anchors: int, gap: int) -> None:
    placements = oracles.placements(n, length, anchors, gap)
    rng = generator(3)
    counts = Counter(tuple(uniform_starts(n, [length] * anchors, gap, rng)) for _ in range(100 * len(placements)))
    assert set(counts) == set(placements)
    assert oracles.chi_square(np.array([counts[placement] for placement in placements])) > 1e-3


def test_a_document_of_the_minimum_length_has_one_placement() -> None:
    # gap * (A - 1) + max_length is the larger term of min_tokens, so the anchors cannot move.
    sampler = SpanSampler(anchors_per_document=3, positives_per_anchor=1, min_length=8, max_length=8, gap=40)
    assert sampler.min_tokens == 88
    assert {a.start for a in sampler.draw(88, generator(4))[0]} == {0, 40, 80}
    with pytest.raises(ValueError):
        sampler.draw(87, generator(4))


def test_positive_starts_of_strategy_all_are_uniform() -> None:
    sampler = SpanSampler(anchors_per_document=1, positives_per_anchor=1, min_length=5, max_length=5, gap=10)
    rng = generator(5)
    offsets: Counter[int] = Counter()
    for _ in range(20_000):
        (anchor,), ((positive,),) = sampler.draw(60, rng)
        if 5 <= anchor.start <= 50:  # away from the edges, 11 starts are possible
            offsets[positive.start - anchor.start] += 1
    assert set(offsets) == set(range(-5, 6))
    assert oracles.chi_square(np.array(list(offsets.values()))) > 1e-3


def test_grid_leaves_a_block_between_anchors_and_takes_the_ends_when_few_are_left() -> None:
    rng = generator(6)
    for _ in range(300):
        first, second = sorted(grid_starts(200, [10, 10], 10, rng))
        assert second - first >= 20
        # 3 blocks for 2 anchors: 3 // 2 < 2, so the first anchor takes block 0 or 2, never the middle one.
        assert sorted(grid_starts(30, [10, 10], 10, rng)) == [0, 20]
