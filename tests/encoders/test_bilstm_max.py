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
from encoders.bag_of_words import BagOfWords
from encoders.bilstm_max import BiLSTMMax
from encoders.fingerprint import fingerprint
from tests.encoders.bilstms import ROWS, SENTENCES, texts, tiny
from tests.real_data import suite_data


def by_hand(encoder: BiLSTMMax, row: np.ndarray) -> Tensor:
    """Computes the states of one sequence, of shape (n, H), by the equations of torch's LSTM, word by word."""
    inputs = list(encoder.embedding.weight[row])
    for layer in encoder.layers:
        directions = []
        for suffix, order in (("", inputs), ("_reverse", inputs[::-1])):
            of_input, of_state, *biases = (
                getattr(layer, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state = cell = of_state.new_zeros(encoder.shape.hidden)
            states = []
            for word in order:
                i, f, g, o = (of_input @ word + of_state @ state + sum(biases)).chunk(4)
                cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
                state = o.sigmoid() * cell.tanh()
                states.append(state)
            directions.append(states)
        inputs = [
            torch.cat([forward, backward])
            for forward, backward in zip(directions[0], directions[1][::-1], strict=True)
        ]
    return torch.stack(inputs)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_maximum_and_gradients_equal_the_equations(layers: int) -> None:
    encoder = tiny(layers=layers).double()
    encoding = encoder(Tokens.pad(ROWS, encoder.format.pad_id))
    assert encoding.states.shape == (6, 6, 8) and encoding.sentence.shape == (6, 8)
    assert (encoder.dimension, encoder.state_dimension) == (8, 8)
    weights = torch.randn(2, 6, 8, dtype=torch.float64)
    total: Any = 0
    for number, row in enumerate(ROWS):
        assert (encoding.states[number, len(row) :] == 0).all()
        if len(row) == 0:
            assert (encoding.sentence[number] == 0).all()
            continue
        states = by_hand(encoder, row)
        torch.testing.assert_close(encoding.states[number, : len(row)], states)
        torch.testing.assert_close(encoding.sentence[number], states.amax(0))
        total = total + states.amax(0) @ weights[0, number] + (states[-1] @ weights[1, number])
    parameters = [weight for weight in encoder.parameters()]
    expected = torch.autograd.grad(total, parameters)
    last = torch.stack([encoding.states[number, max(0, len(row) - 1)] for number, row in enumerate(ROWS)])
    found = torch.autograd.grad((encoding.sentence * weights[0]).sum() + (last * weights[1]).sum(), parameters)
    for one, other in zip(found, expected, strict=True):
        assert one.abs().sum() > 0
        torch.testing.assert_close(one, other)


@settings(max_examples=25)
@given(st.permutations(range(len(ROWS))), st.integers(1, 6), st.integers(0, 4))
def test_batch_order_and_padding_do_not_change_vectors(order: list[int], count: int, extra: int) -> None:
    encoder = tiny(layers=2)
    rows = [ROWS[place] for place in order[:count]]
    padded = Tokens.cat(
        [Tokens.pad(rows, 1), Tokens.pad([np.arange(5, 5 + max(map(len, rows)) + extra)], 1)], pad_id=1
    )
    with torch.no_grad():
        together = encoder(padded).sentence
        alone = torch.cat([encoder(Tokens.pad([row], 1)).sentence for row in rows])
    torch.testing.assert_close(together[:-1], alone, rtol=0, atol=1e-6)


def test_encode_equals_the_equations_sentence_by_sentence() -> None:
    encoder = tiny()
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (6, 8) and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        [alone] = encoder.encode([sentence], batch_tokens=1)
        np.testing.assert_allclose(alone, vector, atol=1e-6)
        ids = np.array(encoder.tokenizer(sentence)["input_ids"])
        np.testing.assert_allclose(by_hand(encoder, ids).amax(0).detach(), vector, atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(encoder.encode(SENTENCES, normalize_embeddings=True), axis=1), 1, atol=1e-6
    )
    np.testing.assert_array_equal(encoder.encode(["", "dog", ""])[[0, 2]], 0)
    np.testing.assert_array_equal(encoder.encode(["", ""]), np.zeros((2, 8)))
    assert encoder.encode([]).shape == (0, 8)


def test_initial_weights_are_torchs_defaults_and_named() -> None:
    encoder = BiLSTMMax(hidden=64, layers=2, word_size=50, min_count=1, texts=texts)
    words = len(encoder.tokenizer)
    assert encoder.origin == f"random BiLSTM-Max, 2 layers x 2 x 64, vocabulary of {words}, word vectors of 50"
    assert (encoder.weights, encoder.untrained, encoder.training) == ("random", True, False)
    assert float(encoder.embedding.weight.detach().std()) == pytest.approx(1, abs=0.05)
    assert all(0.12 < weight.abs().max() <= 1 / 8 for weight in encoder.layers.parameters())
    assert encoder.format.prefix == encoder.format.suffix == ()
    assert (encoder.format.vocab_size, encoder.format.mask_id, encoder.format.pad_id) == (words, 4, 1)
    one, two = tiny(), tiny()
    for first, second in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(first, second)


def test_sentences_are_cut_at_the_length_limit() -> None:
    encoder = tiny(max_length=3)
    np.testing.assert_array_equal(encoder.encode(["the cat sat on the mat"]), encoder.encode(["the cat sat"]))
    assert encoder.format.max_length == 3 and tiny().format.max_length == 1_000_000


# Folders


@pytest.mark.parametrize("layers", [1, 2])
def test_a_folder_opens_here_and_in_sentence_transformers(layers: int, tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = tiny(layers=layers, require_mask_token=True, dropout=0.1, max_length=30)
    vectors = encoder.encode(SENTENCES)
    before = fingerprint(encoder)
    folder = tmp_path / "runs" / "encoder"
    encoder.save(folder)
    opened = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    kinds = [type(module).__name__ for module in opened]
    assert kinds == ["WordEmbeddings", "LSTM", "Pooling"]
    assert np.isneginf(opened.encode([""])).all()  # BiLSTMMax documents this difference
    again = encoders.load(folder)
    assert isinstance(again, BiLSTMMax) and not again.training and not again.untrained
    np.testing.assert_array_equal(again.encode(SENTENCES), vectors)
    assert (again.format, again.weights, again.shape) == (encoder.format, "random", encoder.shape)
    assert again.origin == f"continued from {folder}; before that: {encoder.origin}"
    assert fingerprint(again) == fingerprint(encoder) == before
    states = torch.randn(4, 8)
    assert torch.equal(again.token_logits(states), encoder.token_logits(states))
    card = (folder / "README.md").read_text()
    assert "SentenceTransformer(" in card and "AutoModel" not in card and encoder.origin in card


def test_training_can_continue_from_a_folder(tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    encoder = BiLSTMMax(path=str(tmp_path / "encoder"), hidden=99, train_vectors=False)
    assert encoder.shape.hidden == 4 and not encoder.has_mlm_head  # the folder's sizes take precedence
    assert not encoder.embedding.weight.requires_grad
    before = fingerprint(encoder)
    encoder.train()(Tokens.pad(ROWS, 1)).sentence.sum().backward()
    torch.optim.SGD(encoder.parameters(), lr=0.1).step()
    assert fingerprint(encoder) != before
    encoder.save(tmp_path / "encoder", card="# A card\n")
    again = encoders.load(tmp_path / "encoder")
    assert fingerprint(again) == fingerprint(encoder) and again.origin.startswith("continued from")
    assert (tmp_path / "encoder" / "README.md").read_text() == "# A card\n"


def test_a_resumed_run_keeps_its_vocabulary(tmp_path: Path) -> None:
    first = tiny()
    first.tokenizer.save_pretrained(tmp_path / "tokenizer")
    torch.manual_seed(3)
    resumed = BiLSTMMax(
        hidden=4, word_size=3, tokenizer=tmp_path / "tokenizer", texts=lambda: pytest.fail("texts are read")
    )
    assert fingerprint(resumed) == fingerprint(first) and resumed.origin == first.origin


def test_a_vocabulary_and_vectors_from_real_files(tmp_path: Path) -> None:
    path = suite_data("embeddings/glove.100d.10k.txt.gz")
    lines = suite_data("senteval/downstream/CR/custrev.pos").read_text("latin-1").splitlines()[:400]
    encoder = BiLSTMMax(hidden=32, vectors=str(path), texts=lambda: lines, vocab_size=1000)
    coverage = encoder.origin.rpartition("(")[2]
    known, words = (int(number) for number in coverage.replace(" of", "").split()[:2])
    assert 0.8 < known / words < 1
    vectors = encoder.encode(lines)
    encoder.save(tmp_path / "encoder")
    opened = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(tmp_path / "encoder"), device="cpu"
    )
    np.testing.assert_allclose(opened.encode(lines), vectors, atol=1e-5)


# Refusals


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        BiLSTMMax()
    with pytest.raises(UserError):
        BiLSTMMax(tokenizer=tmp_path / "absent")
    with pytest.raises(UserError):
        BiLSTMMax(path=str(tmp_path / "absent"))
    with pytest.raises(UserError):
        tiny(vectors=str(tmp_path / "absent.txt"))
    (tmp_path / "other.txt").write_text("und 1 2\noder 3 4\n")
    with pytest.raises(UserError):
        tiny(vectors=str(tmp_path / "other.txt"))
    BagOfWords(vectors=str(tmp_path / "other.txt")).save(tmp_path / "bag")
    with pytest.raises(UserError):
        BiLSTMMax(path=str(tmp_path / "bag"))
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder", pooling="cls")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError):
        encoder.save(tmp_path / "thesis")
    marker = tmp_path / "encoder" / "encoder.json"
    stored = json.loads(marker.read_text())
    marker.write_text(json.dumps(stored | {"shape": stored["shape"] | {"hidden": 5}}))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")
    (tmp_path / "encoder" / "1_LSTM" / "model.safetensors").unlink()
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")
