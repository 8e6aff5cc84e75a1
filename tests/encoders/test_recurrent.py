"""Word vectors, dropout, MLM head, FLOPs and saving of recurrent encoders, tested on BiLSTM-Max."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import encoders
from data.batch import Tokens
from encoders.bilstm_max import BiLSTMMax
from tests.encoders.bilstms import ROWS, SENTENCES, tiny

# Word vectors


@pytest.fixture
def vector_file(tmp_path: Path) -> str:
    words = {"The": (6, 8), "the": (0, 10), "cat": (3, -4), "dog": (8, 6), "DOG": (1, 1), "unheard": (5, 5)}
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {a} {b}\n" for word, (a, b) in words.items()))
    return str(path)


def vector_of(encoder: BiLSTMMax, word: str) -> list[float]:
    return encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids(word)].tolist()


def test_words_are_initialised_with_their_vectors(vector_file: str) -> None:
    encoder = tiny(vectors=vector_file)
    assert encoder.embedding.embedding_dim == encoder.shape.word_size == 2
    assert vector_of(encoder, "The") == [6, 8] and vector_of(encoder, "the") == [0, 10]  # a word's own form first
    assert vector_of(encoder, "Cat") == vector_of(encoder, "cat") == [3, -4]  # else its lower-case form
    assert vector_of(encoder, "dog") == [8, 6]
    words = len(encoder.tokenizer) - 5
    assert encoder.origin.endswith(f"word vectors of 2 from {vector_file} (5 of {words} words have a vector)")
    lower = tiny(vectors=vector_file, lowercase=True)
    assert vector_of(lower, "the") == [0, 10] and f"{vector_file} (3 of " in lower.origin


def test_unknown_words_get_vectors_of_the_files_norm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = (f"w{n} " + " ".join(f"{x:.4f}" for x in rng.normal(0, 5, 50)) for n in range(200))
    (tmp_path / "vectors.txt").write_text("\n".join(["the " + "5 " * 49 + "5", *lines]))
    encoder = tiny(vectors=str(tmp_path / "vectors.txt"))
    others = encoder.embedding.weight[5:].detach()
    others = others[(others != 5).any(dim=1)]
    assert len(others) > 20 and float(others.square().mean().sqrt()) == pytest.approx(5, rel=0.1)


@pytest.mark.parametrize("trained", [True, False])
def test_frozen_vectors_are_not_updated(trained: bool, vector_file: str) -> None:
    encoder = tiny(vectors=vector_file, train_vectors=trained, require_mask_token=True).train()
    before = {name: weight.clone() for name, weight in encoder.named_parameters()}
    optimizer = torch.optim.SGD([weight for weight in encoder.parameters() if weight.requires_grad], lr=0.1)
    assert encoder.embedding.weight.requires_grad is trained
    encoding = encoder(Tokens.pad(ROWS, 1))
    (encoding.sentence.square().sum() + encoder.token_logits(encoding.states[0]).square().sum()).backward()
    optimizer.step()
    updated = {name for name, weight in encoder.named_parameters() if not torch.equal(weight, before[name])}
    assert set(before) - updated == (set() if trained else {"embedding.weight"})


# Dropout, MLM head, cost


def test_dropout_is_only_in_training_and_uses_torchs_generator() -> None:
    encoder = tiny(layers=2, dropout=0.5, hidden=16)
    tokens = Tokens.pad(ROWS, 1)
    evaluated = encoder(tokens).sentence
    assert torch.equal(evaluated, encoder(tokens).sentence)
    encoder.train()
    inputs: list[Tensor] = []
    encoder.layers[1].register_forward_pre_hook(lambda layer, args: inputs.append(args[0].data))
    with torch.no_grad():
        encoder(tokens)
    assert 0.3 < (inputs[0] == 0).double().mean() < 0.7  # dropout between the layers too

    def gradients(run: Callable[[], Tensor]) -> list[Tensor]:
        torch.manual_seed(5)
        return list(torch.autograd.grad(run().square().sum(), list(encoder.parameters())))

    plain = gradients(lambda: encoder(tokens).sentence)
    again = gradients(lambda: checkpoint(lambda: encoder(tokens).sentence, use_reentrant=False))
    for one, other in zip(plain, again, strict=True):
        assert torch.equal(one, other)


def test_the_mlm_head_is_tied_to_the_word_vectors() -> None:
    encoder = tiny(require_mask_token=True).double()
    head = encoder.head
    assert head is not None and encoder.has_mlm_head
    nn.init.normal_(head.bias)
    states = torch.randn(7, 8, dtype=torch.float64)
    hidden = states @ head.dense.weight.T + head.dense.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    centred = hidden - hidden.mean(1, keepdim=True)
    normal = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * head.norm.weight + head.norm.bias
    torch.testing.assert_close(encoder.token_logits(states), normal @ encoder.embedding.weight.T + head.bias)
    assert sum("embedding" in name for name, _ in encoder.named_parameters()) == 1
    assert sum(weight.shape[0] == len(encoder.tokenizer) for weight in encoder.parameters()) == 2  # words, bias
    encoder.token_logits(states)[:, 5].sum().backward()
    gradient = encoder.embedding.weight.grad
    assert gradient is not None and gradient[5].abs().sum() > 0


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_initial_logits_are_of_order_one(scale: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["the", "cat", *(f"w{number}" for number in range(50))]
    (tmp_path / "v.txt").write_text(
        "\n".join(f"{w} {' '.join(map(str, rng.normal(0, scale, 40)))}" for w in words)
    )
    encoder = tiny(vectors=str(tmp_path / "v.txt"), require_mask_token=True)
    assert 0.5 < encoder.token_logits(torch.randn(100, 8)).std() < 2


def test_an_mlm_head_can_be_added_later() -> None:
    encoder = tiny()
    assert not encoder.has_mlm_head and encoder.head_flops(5) == 0
    with pytest.raises(ValueError):
        encoder.token_logits(torch.zeros(1, 8))
    encoder.add_mlm_head()
    head = encoder.head
    encoder.add_mlm_head()
    assert encoder.head is head and encoder.token_logits(torch.zeros(1, 8)).shape == (1, len(encoder.tokenizer))


@pytest.mark.parametrize("layers", [1, 2])
def test_flops_equal_torchs_count(layers: int) -> None:
    encoder = tiny(layers=layers, hidden=16, require_mask_token=True)
    tokens = Tokens.pad(ROWS, 1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoding = encoder(tokens)
    count = sum(map(len, ROWS))
    # Torch's kernels also multiply the zero state before the first word, hence the tolerance.
    assert encoder.forward_flops(count, 3) == pytest.approx(counter.get_total_flops(), rel=0.01)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder.token_logits(encoding.states[3])
    assert encoder.head_flops(6) == counter.get_total_flops()


def test_a_layer_in_one_buffer_can_be_saved(tmp_path: Path) -> None:
    """On a GPU, cuDNN keeps a layer's weights in one buffer; here its weights are made views of one buffer."""
    encoder = tiny(layers=2)
    expected = encoder.encode(SENTENCES)
    for layer in encoder.layers:
        weights = list(layer.parameters())
        ends = np.cumsum([3, *(weight.numel() + 5 for weight in weights)])
        buffer = torch.zeros(int(ends[-1]))
        for weight, (start, _) in zip(weights, pairwise(ends), strict=True):
            buffer[start : start + weight.numel()] = weight.data.flatten()
            weight.data = buffer[start : start + weight.numel()].view_as(weight)
    save_model(encoder, str(tmp_path / "model.safetensors"))  # a checkpoint
    encoder.save(tmp_path / "encoder")
    np.testing.assert_array_equal(encoders.load(tmp_path / "encoder").encode(SENTENCES), expected)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.zero_()
    load_model(encoder, str(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(encoder.encode(SENTENCES), expected)
