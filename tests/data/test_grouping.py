"""Rows of similar length: groups with little padding, chunks of bounded size."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data.grouping import length_chunks, length_groups
from tests import oracles


def test_chunks_by_hand() -> None:
    chunks = length_chunks(np.array([3, 1, 2, 5, 4]), 6)
    assert [chunk.tolist() for chunk in chunks] == [[3], [4], [0, 2], [1]]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 200))
def test_chunks_hold_each_row_once_and_no_more_than_their_tokens(lengths: list[int], tokens: int) -> None:
    rows = np.array(lengths, dtype=np.int64)
    chunks = length_chunks(rows, tokens)
    assert sorted(np.concatenate([np.empty(0, np.int64), *chunks]).tolist()) == list(range(len(rows)))
    widths = [max(1, int(rows[chunk].max())) for chunk in chunks]  # an empty row counts as one token
    assert widths == sorted(widths, reverse=True)  # the widest comes first, so that a lack of memory shows at once
    for number, (chunk, width) in enumerate(zip(chunks, widths, strict=True)):
        assert len(chunk) == 1 or len(chunk) * width <= tokens
        assert (len(chunk) + 1) * width > tokens or number == len(chunks) - 1  # another row would not fit


@settings(max_examples=200)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 4))
def test_length_groups_have_the_least_padding(lengths: list[int], groups: int) -> None:
    sets = length_groups(np.array(lengths), groups)
    assert len(sets) <= groups
    assert sorted(np.concatenate(sets)) == list(range(len(lengths)))
    area = sum(len(rows) * max(lengths[row] for row in rows) for rows in sets)
    assert area == oracles.least_padded_area(lengths, groups)


@settings(max_examples=100)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 40))
def test_another_group_is_made_only_if_it_saves_enough_padding(lengths: list[int], min_saving: int) -> None:
    count = len(length_groups(np.array(lengths), 9, min_saving))
    areas = [oracles.least_padded_area(lengths, groups) for groups in range(1, count + 2)]
    assert all(more - fewer <= -min_saving for more, fewer in zip(areas[1:-1], areas, strict=False))
    assert areas[-2] - areas[-1] < min_saving
