"""BiLSTM-Max, LSTM and GRU against the equations, word by word; word vectors, MLM head, folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from data.batch import Tokens
from data.errors import UserError
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.lstm import LSTM
from encoders.recurrent import Recurrent
from tests.checks.encoder import check_folder
from tests.encoders.bilstms import ROWS, SENTENCES, tiny


def step_by_step(layer: Any, inputs: Sequence[Tensor], suffix: str) -> list[Tensor]:
    """Runs torch's equations of an LSTM or GRU over the words of one sentence."""
    of_input, of_state, bias, state_bias = (
        getattr(layer, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state = cell = of_state.new_zeros(layer.hidden_size)
    states = []
    for word in inputs:
        given, kept = of_input @ word + bias, of_state @ state + state_bias
        if isinstance(layer, nn.LSTM):
            i, f, g, o = (given + kept).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
        else:
            (r, z, n), (state_r, state_z, state_n) = given.chunk(3), kept.chunk(3)
            z = (z + state_z).sigmoid()
            state = (1 - z) * (n + (r + state_r).sigmoid() * state_n).tanh() + z * state
        states.append(state)
    return states


def by_hand(encoder: Recurrent, row: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Computes states of one sentence, of shape (n, H), and its vector, of shape (D,)."""
    states = list(encoder.embedding.weight[list(row)])
    for layer in encoder.layers:
        forward, last = step_by_step(layer, states, ""), []
        if encoder.shape.bidirectional:
            last = step_by_step(layer, states[::-1], "_reverse")
            states = [torch.cat(both) for both in zip(forward, last[::-1], strict=True)]
        else:
            states = forward
    table = torch.stack(states)
    pooled = {"max": table.amax(0), "mean": table.mean(0), "last": torch.cat([*last[-1:], forward[-1]])}
    return table, pooled[encoder.pooling]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    ("kind", "pooling", "options"),
    [
        (BiLSTMMax, "max", {}),
        (LSTM, "last", {}),
        (LSTM, "mean", {}),
        (GRU, "last", {}),
        (GRU, "max", {"bidirectional": False}),
        (GRU, "last", {"bidirectional": False}),
    ],
)
def test_states_vector_and_gradients_equal_the_equations(
    kind: Any, pooling: str, options: Any, layers: int
) -> None:
    encoder = tiny(kind, layers=layers, **options).double()
    encoder.pool_by(pooling)
    rows = [encoder.format.wrap(row) for row in ROWS]
    encoding = encoder(Tokens.pad(rows, encoder.format.pad_id))
    width = 4 * (1 + encoder.shape.bidirectional)
    assert encoder.dimension == encoder.state_dimension == encoding.sentence.shape[1] == width
    weights = torch.randn(len(rows), width, dtype=torch.float64)
    total = torch.zeros(())
    for number, row in enumerate(rows):
        assert (encoding.states[number, len(row) :] == 0).all()
        if len(row):
            states, vector = by_hand(encoder, row.tolist())
            torch.testing.assert_close(encoding.states[number, : len(row)], states)
            torch.testing.assert_close(encoding.sentence[number], vector)
            total = total + vector @ weights[number] + states.sum()
        else:
            assert (encoding.sentence[number] == 0).all()
    parameters = list(encoder.parameters())
    gradients = torch.autograd.grad((encoding.sentence * weights).sum() + encoding.states.sum(), parameters)
    for gradient, expected in zip(gradients, torch.autograd.grad(total, parameters), strict=True):
        assert gradient.abs().sum() > 0
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(("kind", "prefix", "suffix"), [(BiLSTMMax, [], []), (LSTM, [0], []), (GRU, [0], [2])])
def test_encode_puts_marks_around_a_sentence_and_cuts_it(kind: Any, prefix: list[int], suffix: list[int]) -> None:
    encoder = tiny(kind, lowercase=True, max_length=9)
    for sentence, vector in zip(SENTENCES, encoder.encode(SENTENCES), strict=True):
        content = encoder.tokenizer(sentence.lower(), add_special_tokens=False)["input_ids"]
        row = [*prefix, *content[: 9 - len(prefix + suffix)], *suffix]
        np.testing.assert_allclose(by_hand(encoder, row)[1].detach(), vector, atol=1e-6)


# Word vectors, dropout, MLM head


def write_vectors(path: Path, words: dict[str, Any]) -> str:
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in words.items()))
    return str(path)


def test_words_are_initialised_with_their_vectors(tmp_path: Path) -> None:
    words = {"The": (6, 8), "the": (0, 10), "cat": (3, -4), "dog": (8, 6), "DOG": (1, 1), "unheard": (5, 5)}
    path = write_vectors(tmp_path / "vectors.txt", words)
    encoder = tiny(vectors=path, train_vectors=False)
    assert not encoder.embedding.weight.requires_grad
    assert encoder.shape.word_size == 2 and f"5 of them from {path}" in encoder.origin
    for word, form in {"The": "The", "the": "the", "Cat": "cat", "cat": "cat", "dog": "dog"}.items():
        vector = encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids(word)]
        assert tuple(vector.tolist()) == words[form]  # a word's own form first, else in lower case


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_unknown_words_and_initial_logits_are_of_the_scale_of_the_file(scale: float, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(0, scale, (200, 50))
    encoder = tiny(vectors=write_vectors(tmp_path / "vectors.txt", {f"w{i}": row for i, row in enumerate(rows)}))
    assert float(encoder.embedding.weight.detach().square().mean().sqrt()) == pytest.approx(scale, rel=0.1)
    encoder.add_mlm_head()
    assert 0.5 < encoder.token_logits(torch.randn(100, 8)).std() < 2


def test_dropout_is_in_training_only_and_uses_torchs_generator() -> None:
    encoder, tokens = tiny(layers=2, dropout=0.5, hidden=16, word_size=16), Tokens.pad(ROWS, 1)
    assert torch.equal(encoder(tokens).sentence, encoder(tokens).sentence)
    encoder.train()
    assert not torch.equal(encoder(tokens).sentence, encoder(tokens).sentence)
    results = []
    for run in (encoder, partial(checkpoint, encoder, use_reentrant=False)):
        torch.manual_seed(5)
        results.append(torch.autograd.grad(run(tokens).sentence.square().sum(), list(encoder.parameters())))
    assert all(torch.equal(gradient, other) for gradient, other in zip(*results, strict=True))


def test_the_mlm_head_is_tied_to_the_word_vectors() -> None:
    encoder = tiny().double()
    encoder.add_mlm_head()
    head = encoder.head.double()
    nn.init.normal_(head.bias)
    states = torch.randn(7, 8, dtype=torch.float64)
    hidden = states @ head.dense.weight.T + head.dense.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    centred = hidden - hidden.mean(1, keepdim=True)
    normal = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * head.norm.weight + head.norm.bias
    torch.testing.assert_close(encoder.token_logits(states), normal @ encoder.embedding.weight.T + head.bias)


# Folders


@pytest.mark.parametrize(
    ("kind", "arguments"), [(BiLSTMMax, {}), (LSTM, {}), (GRU, {"summary": "max", "bidirectional": False})]
)
def test_deep_encoders_with_a_head_can_be_opened(kind: Any, arguments: Any, tmp_path: Path) -> None:
    encoder = tiny(kind, layers=2, dropout=0.1, max_length=30, **arguments)
    encoder.add_mlm_head()
    check_folder(encoder, tmp_path / "first")
    again = kind(path=str(tmp_path / "first"), hidden=99)  # the folder's sizes take precedence
    states = torch.randn(4, encoder.state_dimension)
    assert torch.equal(again.token_logits(states), encoder.token_logits(states))
    again.pool_by("mean")
    check_folder(again, tmp_path / "second")


def test_a_layer_in_one_buffer_can_be_saved(tmp_path: Path) -> None:
    """On a GPU, cuDNN keeps a layer's weights in one buffer; here its weights are made views of one buffer."""
    encoder = tiny(layers=2)
    for layer in encoder.layers:
        weights = list(layer.parameters())
        parts = torch.cat([weight.data.flatten() for weight in weights]).split([w.numel() for w in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.data = part.view_as(weight)
    check_folder(encoder, tmp_path / "encoder")


@pytest.mark.parametrize("options", [{"weights": "pretrained"}, {"path": "/absent"}])
def test_impossible_arguments_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError):
        tiny(LSTM, **options)
    tiny().save(tmp_path)
    with pytest.raises(UserError):
        tiny(LSTM, path=str(tmp_path))  # a BiLSTM-Max
