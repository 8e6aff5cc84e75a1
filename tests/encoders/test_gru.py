from __future__ import annotations

import json
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
from encoders.bilstm_max import BiLSTMMax
from encoders.concatenated import Concatenated
from encoders.fingerprint import fingerprint
from encoders.gru import GRU
from encoders.lstm import LSTM
from tests.encoders.bilstms import ROWS, SENTENCES, texts

WORD_IDS = [[5, 6, 7], [8], [], [9, 5, 5, 10, 11, 6], [7, 7]]


def tiny(**arguments: Any) -> GRU:
    torch.manual_seed(3)
    return GRU(**{"hidden": 4, "word_size": 3, "min_count": 1, "lowercase": True, "texts": texts, **arguments})


def by_hand(encoder: GRU, row: list[int]) -> tuple[Tensor, Tensor]:
    """Computes the states of one sequence, of shape (n, H), and its last states, backward first."""
    inputs = list(encoder.embedding.weight[row])
    for layer in encoder.layers:
        directions = []
        for suffix in ("", "_reverse") if encoder.shape.bidirectional else ("",):
            of_input, of_state, bias, state_bias = (
                getattr(layer, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state = of_state.new_zeros(encoder.shape.hidden)
            states = []
            for word in reversed(inputs) if suffix else inputs:
                input_r, input_z, input_n = (of_input @ word + bias).chunk(3)
                state_r, state_z, state_n = (of_state @ state + state_bias).chunk(3)
                z = (input_z + state_z).sigmoid()
                state = (1 - z) * (input_n + (input_r + state_r).sigmoid() * state_n).tanh() + z * state
                states.append(state)
            directions.append(states)
        last = torch.cat([states[-1] for states in reversed(directions)])
        if len(directions) == 2:
            directions[1].reverse()
        inputs = [torch.cat(both) for both in zip(*directions, strict=True)]
    return torch.stack(inputs), last


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, True), (2, True), (1, False), (2, False)])
@pytest.mark.parametrize("summary", ["last", "max"])
def test_states_vector_and_gradients_equal_the_equations(layers: int, bidirectional: bool, summary: Any) -> None:
    encoder = tiny(layers=layers, bidirectional=bidirectional, summary=summary).double()
    width = 8 if bidirectional else 4
    rows = [encoder.format.wrap(np.array(row)) for row in WORD_IDS]
    encoding = encoder(Tokens.pad(rows, encoder.format.pad_id))
    assert encoding.states.shape == (5, 8, width) and encoding.sentence.shape == (5, width)
    assert (encoder.dimension, encoder.state_dimension) == (width, width)
    weights = torch.randn(5, width, dtype=torch.float64)
    total: Any = 0
    for number, row in enumerate(rows):
        states, last = by_hand(encoder, row.tolist())
        torch.testing.assert_close(encoding.states[number, : len(row)], states)
        sentence = last if summary == "last" else states.amax(0)
        torch.testing.assert_close(encoding.sentence[number], sentence)
        total = total + sentence @ weights[number]
    parameters = list(encoder.parameters())
    expected = torch.autograd.grad(total, parameters)
    found = torch.autograd.grad((encoding.sentence * weights).sum(), parameters)
    for one, other in zip(found, expected, strict=True):
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other)


@settings(max_examples=25)
@given(st.permutations(range(len(ROWS))), st.integers(1, 6), st.integers(0, 4), st.sampled_from(["last", "max"]))
def test_batch_order_and_padding_do_not_change_vectors(
    order: list[int], count: int, extra: int, summary: Any
) -> None:
    encoder = tiny(layers=2, summary=summary)
    rows = [ROWS[place] for place in order[:count]]
    padded = Tokens.cat(
        [Tokens.pad(rows, 1), Tokens.pad([np.arange(5, 5 + max(map(len, rows)) + extra)], 1)], pad_id=1
    )
    with torch.no_grad():
        together = encoder(padded).sentence
        alone = torch.cat([encoder(Tokens.pad([row], 1)).sentence for row in rows])
    torch.testing.assert_close(together[:-1], alone, rtol=0, atol=1e-6)


def test_encode_puts_start_and_end_tokens_around_a_sentence() -> None:
    encoder = tiny()
    assert (encoder.format.prefix, encoder.format.suffix) == ((0,), (2,))
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (6, 8) and vectors.dtype == np.float32
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        content = encoder.tokenizer(sentence, add_special_tokens=False)["input_ids"]
        wrapped = encoder.format.wrap(np.array(content)).tolist()
        assert encoder.tokenizer(sentence)["input_ids"] == wrapped == [0, *content, 2]
        np.testing.assert_allclose(by_hand(encoder, wrapped)[1].detach(), vector, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(["THE CAT"]), encoder.encode(["the cat"]))
    np.testing.assert_allclose(encoder.encode([""])[0], by_hand(encoder, [0, 2])[1].detach(), atol=1e-6)
    assert encoder.encode([]).shape == (0, 8)


def test_the_length_limit_includes_start_and_end_tokens() -> None:
    encoder = tiny(max_length=5)
    np.testing.assert_array_equal(encoder.encode(["the cat sat on the mat"]), encoder.encode(["the cat sat"]))
    assert len(encoder.format.wrap(np.arange(5, 50))) == 5 and tiny().format.max_length == 1_000_000


def test_initial_weights_have_the_published_ranges_and_are_named() -> None:
    encoder = tiny(hidden=64, layers=2, word_size=50)
    words = len(encoder.tokenizer)
    assert encoder.origin == f"random GRU, 2 layers x 2 x 64, vocabulary of {words}, word vectors of 50"
    assert (encoder.weights, encoder.untrained, encoder.training) == ("random", True, False)
    assert 0.099 < encoder.embedding.weight.abs().max() <= 0.1
    assert all(0.12 < weight.abs().max() <= 1 / 8 for weight in encoder.layers.parameters())
    assert "1 layer x 4," in tiny(bidirectional=False).origin


def test_word_vectors_of_a_file_are_used(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("the 1 2\ncat 3 -4\n")
    encoder = tiny(vectors=str(tmp_path / "vectors.txt"))
    assert encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids("cat")].tolist() == [3, -4]


def test_dropout_is_only_between_layers() -> None:
    tokens = Tokens.pad(ROWS, 1)
    single = tiny(dropout=0.5).train()
    assert torch.equal(single(tokens).states, single(tokens).states)
    double = tiny(dropout=0.5, layers=2, hidden=16).train()
    inputs: list[Tensor] = []
    for layer in double.layers:
        layer.register_forward_pre_hook(lambda layer, args: inputs.append(args[0].data))
    with torch.no_grad():
        double(tokens)
    assert (inputs[0] == 0).sum() == 0 and 0.3 < (inputs[1] == 0).double().mean() < 0.7
    evaluated = double.eval()(tokens).states
    assert torch.equal(evaluated, double(tokens).states)


# Folders


@pytest.mark.parametrize(("layers", "bidirectional", "summary"), [(1, True, "last"), (2, False, "max")])
def test_a_folder_opens_here(layers: int, bidirectional: bool, summary: Any, tmp_path: Path) -> None:
    encoder = tiny(
        layers=layers, bidirectional=bidirectional, summary=summary, max_length=30, require_mask_token=True
    )
    vectors, before = encoder.encode(SENTENCES), fingerprint(encoder)
    folder = tmp_path / "encoder"
    encoder.save(folder)
    again = encoders.load(folder)
    assert isinstance(again, GRU) and not again.training and not again.untrained
    np.testing.assert_array_equal(again.encode(SENTENCES), vectors)
    assert (again.format, again.shape, again.pooling) == (encoder.format, encoder.shape, summary)
    assert fingerprint(again) == before == fingerprint(encoder)
    assert again.origin == f"continued from {folder}; before that: {encoder.origin}"
    states = torch.randn(4, encoder.state_dimension)
    assert torch.equal(again.token_logits(states), encoder.token_logits(states))
    assert not (folder / "modules.json").exists()
    card = (folder / "README.md").read_text()
    assert f"{summary} pooling" in card and "Only this suite can open the folder as a whole" in card
    assert "SentenceTransformer(" not in card and "library_name" not in card
    again.train()(Tokens.pad(ROWS, 1)).sentence.sum().backward()
    torch.optim.SGD(again.parameters(), lr=0.1).step()
    again.save(folder, card="# A card\n")
    assert fingerprint(encoders.load(folder)) == fingerprint(again) != before


def test_a_trained_encoder_can_be_pooled_either_way(tmp_path: Path) -> None:
    encoder = tiny(layers=2)
    encoder.save(tmp_path / "encoder")
    fingerprints = {fingerprint(encoder)}
    for pooling in ("last", "max"):
        chosen = encoders.load(tmp_path / "encoder", pooling=pooling)
        np.testing.assert_array_equal(chosen.encode(SENTENCES), tiny(layers=2, summary=pooling).encode(SENTENCES))
        fingerprints.add(fingerprint(chosen))
    assert len(fingerprints) == 2
    chosen.save(tmp_path / "encoder")
    assert isinstance(again := encoders.load(tmp_path / "encoder"), GRU) and again.pooling == "max"
    assert GRU(path=str(tmp_path / "encoder"), summary="last").pooling == "last"
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder", pooling="cls")
    with pytest.raises(UserError):
        encoder.pool_by("cls")


def test_encoders_side_by_side_pool_together(tmp_path: Path) -> None:
    members = [tiny(), tiny(layers=2, bidirectional=False)]
    Concatenated(members).save(tmp_path / "both")
    chosen = encoders.load(tmp_path / "both", pooling="max")
    expected = [tiny(summary="max"), tiny(layers=2, bidirectional=False, summary="max")]
    np.testing.assert_array_equal(chosen.encode(SENTENCES), np.hstack([one.encode(SENTENCES) for one in expected]))
    assert chosen(Tokens.pad(ROWS, 1)).sentence.shape == (6, 12)
    bilstm = BiLSTMMax(hidden=3, word_size=3, min_count=1, texts=texts)
    Concatenated([tiny(), bilstm]).save(tmp_path / "mixed")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "mixed", pooling="last")


@pytest.mark.parametrize("kind", [BiLSTMMax, GRU, LSTM])
def test_every_recurrent_encoder_can_be_evaluated_by_the_mean_of_its_states(
    kind: type[Any], tmp_path: Path
) -> None:
    encoder = kind(hidden=3, word_size=3, min_count=1, texts=texts)
    encoder.save(tmp_path / "encoder")
    chosen = encoders.load(tmp_path / "encoder", pooling="mean")
    assert fingerprint(chosen) != fingerprint(encoder)
    for sentence in SENTENCES:
        row = encoder.tokenizer(sentence)["input_ids"]
        states = encoder(Tokens.pad([np.array(row, dtype=np.int64)], 0)).states[0]
        expected = states.sum(dim=0) / max(len(row), 1)
        np.testing.assert_allclose(chosen.encode([sentence])[0], expected.detach().numpy(), atol=1e-6)
    chosen.save(tmp_path / "kept")
    np.testing.assert_array_equal(encoders.load(tmp_path / "kept").encode(SENTENCES), chosen.encode(SENTENCES))


# Refusals


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        GRU(path=str(tmp_path / "absent"))
    BiLSTMMax(hidden=3, word_size=3, min_count=1, texts=texts).save(tmp_path / "bilstm")
    with pytest.raises(UserError):
        GRU(path=str(tmp_path / "bilstm"))
    tiny().save(tmp_path / "encoder")
    marker = tmp_path / "encoder" / "encoder.json"
    stored = json.loads(marker.read_text())
    marker.write_text(json.dumps(stored | {"pooling": "median"}))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")
