"""Selection of usable units, compared with naive loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import selection
from data.selection import Selection, repeated, varied


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "CHUNK_UNITS", 3)
        patch.setattr(selection, "CHUNK_TOKENS", 7)
        yield


def test_narrowed_keeps_units_and_counts_those_left_out() -> None:
    selected = Selection(np.array([0, 2, 3]), {"too short": 2})
    narrowed = selected.narrowed(np.array([True, True, False, True, False]), "repeated")
    assert narrowed.indices.tolist() == [0, 3] and narrowed.left_out == {"too short": 2, "repeated": 1}
    assert selected.narrowed(np.ones(5, dtype=bool), "repeated").left_out == {"too short": 2}


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=20))
def test_varied_units_have_two_different_tokens(units: list[list[int]]) -> None:
    ids = np.array([token for unit in units for token in unit], dtype=np.uint16)
    found = varied(ids, np.array([len(unit) for unit in units], dtype=np.int64))
    assert found.tolist() == [len(set(unit)) > 1 for unit in units]


UNITS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["usable", "besides", ""])))


@given(UNITS, st.booleans())
def test_repeated_units_equal_a_naive_loop(units: list[tuple[int, int, str]], with_others: bool) -> None:
    texts, order = (np.array([unit[i] for unit in units], dtype=np.uint64) for i in (0, 1))
    usable, besides = (np.array([unit[2] == name for unit in units], dtype=bool) for name in ("usable", "besides"))
    expected = []
    for i, (text, _, kind) in enumerate(units):
        others = {unit[0] for unit in units if unit[2] == "besides"} if with_others else set()
        first = min((unit[1], j) for j, unit in enumerate(units) if unit[0] == text and unit[2] == kind)
        expected.append(kind == "usable" and (text in others or first[1] != i))
    assert repeated(texts, order, usable, besides if with_others else None).tolist() == expected
