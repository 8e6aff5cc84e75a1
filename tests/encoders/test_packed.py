"""Recurrent layers over packed rows equal torch's, and stay in float32 under bf16 autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from data.batch import Tokens
from encoders import packed
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.lstm import LSTM
from encoders.packed import packing
from tests.encoders.bilstms import ROWS, tiny


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 3))
def test_packing_equals_torchs(counts: list[int], extra: int) -> None:
    lengths = torch.tensor(counts)
    width = max(counts) + extra
    places, running = packing(lengths, width)
    block = torch.arange(len(counts) * width).view(len(counts), width)
    order = torch.argsort(lengths, descending=True, stable=True)
    order = order[lengths[order] > 0]
    if len(order) == 0:
        assert len(places) == len(running) == 0
        return
    expected = pack_padded_sequence(block[order], lengths[order], batch_first=True)
    assert torch.equal(places, expected.data) and torch.equal(running, expected.batch_sizes)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("steps", [1, 3, 50])
def test_packed_recurrent_layers_equal_torchs(
    steps: int, cell: type[nn.LSTM] | type[nn.GRU], bidirectional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "STEPS", steps)
    torch.manual_seed(1)
    layer = cell(3, 4, bidirectional=bidirectional).double()
    for lengths in ([7, 2, 7, 1, 5, 3], [3, 3, 3], [4]):
        places, running = packing(torch.tensor(lengths), 9)
        data = torch.randn(len(places), 3, dtype=torch.float64, requires_grad=True)
        expected = layer(PackedSequence(data, running))[0].data
        states = packed.recurrent(layer, data, running)
        torch.testing.assert_close(states, expected)
        with torch.no_grad():
            assert torch.equal(packed.recurrent(layer, data, running), expected)
        weights, variables = torch.randn_like(expected), [data, *layer.parameters()]
        ours, theirs = (torch.autograd.grad((out * weights).sum(), variables) for out in (states, expected))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", [BiLSTMMax, GRU, LSTM])
def test_bf16_leaves_recurrent_kernels_in_float32(kind: type[Any]) -> None:
    """On a CPU, oneDNN has no backward pass for an LSTM in bf16."""
    encoder, tokens = tiny(kind).train(), Tokens.pad(ROWS, 0)
    plain = encoder(tokens).states
    with torch.autocast("cpu", torch.bfloat16):
        states = encoder(tokens).states
    assert torch.equal(states, plain)
    result, expected = (torch.autograd.grad(out.sum(), [*encoder.layers.parameters()]) for out in (states, plain))
    for one, other in zip(result, expected, strict=True):
        assert torch.equal(one, other)
