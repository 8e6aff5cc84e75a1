"""Rows of similar length: chunks of bounded size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.grouping import length_chunks


def test_chunks_by_hand() -> None:
    chunks = length_chunks(np.array([3, 1, 2, 5, 4]), 6)
    assert [chunk.tolist() for chunk in chunks] == [[3], [4], [0, 2], [1]]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 200))
def test_chunks_hold_each_row_once_and_no_more_than_their_tokens(lengths: list[int], tokens: int) -> None:
    rows = np.array(lengths, dtype=np.int64)
    chunks = length_chunks(rows, tokens)
    assert sorted(np.concatenate([np.empty(0, np.int64), *chunks]).tolist()) == list(range(len(rows)))
    widths = [max(1, int(rows[chunk].max())) for chunk in chunks]  # an empty row counts as one token
    assert widths == sorted(widths, reverse=True)  # what is too large fails at once
    for number, (chunk, width) in enumerate(zip(chunks, widths, strict=True)):
        assert len(chunk) == 1 or len(chunk) * width <= tokens
        assert (len(chunk) + 1) * width > tokens or number == len(chunks) - 1  # another row would not fit
