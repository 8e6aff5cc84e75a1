from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import encoders
from data.batch import Tokens
from data.errors import UserError
from encoders.fingerprint import fingerprint
from encoders.lstm import LSTM
from tests.encoders.bilstms import ROWS, SENTENCES, texts


def tiny(**arguments: Any) -> LSTM:
    torch.manual_seed(3)
    return LSTM(**{"hidden": 4, "word_size": 3, "min_count": 1, "texts": texts, **arguments})


def by_hand(encoder: LSTM, row: list[int]) -> Tensor:
    """Computes the states of one sequence, of shape (n, H), word by word."""
    inputs = list(encoder.embedding.weight[row])
    layer: Any
    for layer in encoder.layers:
        state = cell = layer.weight_hh_l0.new_zeros(encoder.shape.hidden)
        states = []
        for word in inputs:
            gates = layer.weight_ih_l0 @ word + layer.bias_ih_l0 + layer.weight_hh_l0 @ state + layer.bias_hh_l0
            i, f, g, o = gates.chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
            states.append(state)
        inputs = states
    return torch.stack(inputs)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_vector_and_gradients_equal_the_equations(layers: int) -> None:
    encoder = tiny(layers=layers).double()
    rows = [encoder.format.wrap(row) for row in ROWS]
    encoding = encoder(Tokens.pad(rows, encoder.format.pad_id))
    assert encoding.states.shape == (6, 7, 4) and (encoder.dimension, encoder.state_dimension) == (4, 4)
    states = [by_hand(encoder, row.tolist()) for row in rows]
    for number, expected in enumerate(states):
        torch.testing.assert_close(encoding.states[number, : len(expected)], expected)
        torch.testing.assert_close(encoding.sentence[number], expected[-1])
    weights = torch.randn(6, 4, dtype=torch.float64)
    parameters = list(encoder.parameters())
    total = sum((one[-1] @ weight for one, weight in zip(states, weights, strict=True)), torch.zeros(()))
    found = torch.autograd.grad((encoding.sentence * weights).sum(), parameters)
    for one, other in zip(found, torch.autograd.grad(total, parameters), strict=True):
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other)


@settings(max_examples=20)
@given(st.permutations(range(len(ROWS))), st.integers(1, 6), st.integers(0, 4))
def test_batch_order_and_padding_do_not_change_vectors(order: list[int], count: int, extra: int) -> None:
    encoder = tiny(layers=2)
    rows = [encoder.format.wrap(ROWS[place]) for place in order[:count]]
    longest = np.arange(5, 5 + max(map(len, rows)) + extra)
    with torch.no_grad():
        together = encoder(Tokens.pad([*rows, longest], 1)).sentence
        alone = torch.cat([encoder(Tokens.pad([row], 1)).sentence for row in rows])
    torch.testing.assert_close(together[:-1], alone, rtol=0, atol=1e-6)


def test_encode_puts_a_start_token_before_a_sentence() -> None:
    encoder = tiny(max_length=6)
    assert (encoder.format.prefix, encoder.format.suffix) == ((0,), ())
    vectors = encoder.encode([*SENTENCES, ""])
    for sentence, vector in zip([*SENTENCES, ""], vectors, strict=True):
        content = encoder.tokenizer(sentence, add_special_tokens=False)["input_ids"]
        wrapped = [0, *content][:6]
        assert encoder.format.wrap(np.array(content)).tolist() == wrapped
        np.testing.assert_allclose(by_hand(encoder, wrapped)[-1].detach(), vector, atol=1e-6)


def test_a_folder_opens_here_and_in_sentence_transformers(tmp_path: Path) -> None:
    encoder = tiny(layers=2, max_length=30, require_mask_token=True)
    vectors = encoder.encode(SENTENCES)
    encoder.save(tmp_path / "encoder")
    again = encoders.load(tmp_path / "encoder")
    assert isinstance(again, LSTM) and fingerprint(again) == fingerprint(encoder)
    np.testing.assert_array_equal(again.encode(SENTENCES), vectors)
    assert (again.format, again.shape) == (encoder.format, encoder.shape)
    size = len(encoder.tokenizer)
    assert again.origin.endswith(f"random LSTM, 2 layers x 4, vocabulary of {size}, word vectors of 3")
    assert again.has_mlm_head
    opened = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(tmp_path / "encoder"), device="cpu"
    )
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-6)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(UserError):
        tiny(max_length=1)
