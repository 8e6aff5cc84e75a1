"""The memory bank: order, wrap-around, filling, persistence."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from objectives.memory_bank import MemoryBank


@given(st.integers(1, 7), st.lists(st.integers(0, 17), max_size=6))
def test_it_holds_the_last_vectors_added(size: int, counts: list[int]) -> None:
    bank = MemoryBank(size, 1)
    added: list[float] = []
    for count in counts:
        new = [float(len(added) + i) for i in range(count)]
        added += new
        bank.put(torch.tensor(new).reshape(-1, 1))
        assert sorted(bank.negatives().flatten().tolist()) == added[-size:]
