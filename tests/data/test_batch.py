"""Tokens, batches and length groups."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import IGNORE, Batch, Tokens
from data.grouping import length_groups
from data.token_format import TokenFormat
from tests import oracles


def test_pad_rows_and_cat() -> None:
    first = Tokens.pad(
        [np.array([5, 6, 7]), np.array([8])], 1, labels=[np.array([IGNORE, 6, IGNORE]), np.array([8])]
    )
    assert first.ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert first.mask.tolist() == [[True] * 3, [True, False, False]]
    assert first.labels is not None and first.labels.tolist() == [[IGNORE, 6, IGNORE], [8, IGNORE, IGNORE]]
    second = Tokens.pad([np.array([2, 3, 4, 9])], 1)
    both = Tokens.cat([first, second], 1)
    assert both.ids.tolist() == [[5, 6, 7, 1], [8, 1, 1, 1], [2, 3, 4, 9]]
    assert both.lengths.tolist() == [3, 1, 4]
    assert both.labels is not None and (both.labels[2] == IGNORE).all()
    part = both.rows(torch.tensor([1, 0]))
    assert part.ids.tolist() == [[8, 1, 1], [5, 6, 7]] and len(part) == 2
    assert Batch({"a": first, "b": second}, size=2).n_tokens == 8
    moved = Batch({"f": first, "g": first, "h": second}).to("meta").tokens
    assert moved["f"] is moved["g"] is not moved["h"] and moved["h"].ids.is_meta


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
def test_a_further_group_spares_what_it_has_to(lengths: list[int], worth: int) -> None:
    count = len(length_groups(np.array(lengths), 9, worth))
    areas = [oracles.least_padded_area(lengths, groups) for groups in range(1, count + 2)]
    assert all(more - fewer <= -worth for more, fewer in zip(areas[1:-1], areas, strict=False))
    assert areas[-2] - areas[-1] < worth


def test_format_wraps_and_cuts_at_the_end() -> None:
    form = TokenFormat((0,), (2,), 1, 4, 10, 5, frozenset({0, 1, 2, 4}))
    assert form.max_content == 3
    assert form.wrap(np.array([5, 6, 7, 8])).tolist() == [0, 5, 6, 7, 2]


def test_rows_without_labels_get_theirs_where_labels_are() -> None:
    some = Tokens.pad([np.array([1, 2])], 0, labels=[np.array([IGNORE, 5])]).to("meta")  # as on a GPU
    joined = Tokens.cat([some, Tokens.pad([np.array([3])], 0).to("meta")], 0)
    assert joined.ids.is_meta and joined.labels is not None
    assert joined.labels.tolist() == [[IGNORE, 5], [IGNORE, IGNORE]]
