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


def test_a_loaded_state_continues_where_it_stopped() -> None:
    first, second = MemoryBank(4, 1), MemoryBank(4, 1)
    first.put(torch.arange(3.0).reshape(-1, 1))
    assert set(first.state_dict()) == {"rows", "seen"}
    second.load_state_dict(first.state_dict())
    for bank in (first, second):
        bank.put(torch.arange(3.0, 6.0).reshape(-1, 1))
    assert torch.equal(first.rows, second.rows)
    assert sorted(second.negatives().flatten().tolist()) == [2.0, 3.0, 4.0, 5.0]
