"""The GRU decoder: loss and gradient against a loop, memory, half precision."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Tokens
from data.tokenizer import END, PAD, START
from objectives.decoder import CHUNK, Decoder, cross_entropy_sum
from tests.objectives.gradients import assert_same_gradient

ROWS = [[START, 7, 8, 9, END], [START, END], [START, 5, 6, 11, 10, 5, END], [START, 6, 6, END]]


def tiny(chunk: int = CHUNK, **arguments: Any) -> Decoder:
    torch.manual_seed(2)
    settings: dict[str, Any] = {"vocabulary": 12, "condition": 7, "word_size": 5, "dropout": 0.0, **arguments}
    decoder = Decoder(**settings).double()
    decoder.chunk = chunk
    return decoder


def padded(rows: list[list[int]]) -> Tokens:
    return Tokens.pad([np.array(row) for row in rows], PAD)


def vectors() -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(len(ROWS), 7, dtype=torch.float64, generator=generator).requires_grad_()


def step(decoder: Decoder, token: int, sentence: Tensor, state: Tensor) -> Tensor:
    """Computes a GRU step as the published program does: C h_x anew at every step, the reset gate after U."""
    from_word = decoder.of_word.weight @ decoder.embedding.weight[token] + decoder.of_word.bias
    from_state = decoder.of_state.weight @ state + decoder.of_state.bias
    (i_r, i_z, i_n), (h_r, h_z, h_n) = from_word.chunk(3), from_state.chunk(3)
    c_r, c_z, c_n = (decoder.of_sentence.weight @ sentence).chunk(3)
    reset, keep = torch.sigmoid(i_r + h_r + c_r), torch.sigmoid(i_z + h_z + c_z)
    new = torch.tanh(i_n + reset * h_n + c_n)
    return new + keep * (state - new)


def naive_loss(decoder: Decoder, sentences: Tensor, rows: list[list[int]]) -> Tensor:
    """Returns the summed loss, computed row by row and step by step."""
    total = sentences.new_zeros(())
    for sentence, row in zip(sentences, rows, strict=True):
        state = decoder.start(sentence)
        for token, following in pairwise(row):
            state = step(decoder, token, sentence, state)
            total = total - decoder.output(state).log_softmax(0)[following]
    return total


@pytest.mark.parametrize("hidden", [None, 4, 9])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_value_and_gradient_equal_the_loop(hidden: int | None, chunk: int) -> None:
    decoder, sentences = tiny(hidden=hidden, chunk=chunk), vectors()
    torch.nn.init.normal_(decoder.output.bias)
    total, count = decoder.loss(sentences, padded(ROWS))
    assert count == sum(len(row) - 1 for row in ROWS) and total.ndim == 0
    expected = naive_loss(decoder, sentences, ROWS)
    assert_same_gradient(3 * total, 3 * expected, [sentences, *decoder.parameters()], rtol=0, atol=1e-10)
    with torch.no_grad():
        assert abs(float(decoder.loss(sentences, padded(ROWS))[0] - expected.detach())) < 1e-10


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_held_out_text_is_scored_by_loss_and_accuracy(chunk: int) -> None:
    decoder, sentences = tiny(chunk=chunk), vectors()
    torch.nn.init.normal_(decoder.output.weight)
    total, hits, count = decoder.loss_and_hits(sentences, padded(ROWS))
    expected, expected_count = decoder.loss(sentences, padded(ROWS))
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=0)
    correct = 0
    for vector, row in zip(sentences, ROWS, strict=True):
        states, following = decoder.states(vector[None], padded([row]))
        correct += int((decoder.output(states).argmax(dim=1) == following).sum())
    assert count == expected_count and 0 < correct < expected_count and int(hits) == correct


def test_it_equals_torchs_gru_over_word_and_sentence() -> None:
    decoder, sentences = tiny(), vectors()
    torch_gru = torch.nn.GRU(5 + 7, 7, batch_first=True).double()
    torch_gru.load_state_dict(
        {
            "weight_ih_l0": torch.cat([decoder.of_word.weight, decoder.of_sentence.weight], dim=1),
            "weight_hh_l0": decoder.of_state.weight,
            "bias_ih_l0": decoder.of_word.bias,
            "bias_hh_l0": decoder.of_state.bias,
        }
    )
    row = ROWS[2]
    words = decoder.embedding.weight[row[:-1]]
    expected, _ = torch_gru(torch.cat([words, sentences[:1].expand(6, 7)], dim=1)[None], sentences[None, :1])
    states, following = decoder.states(sentences[:1], padded([row]))
    torch.testing.assert_close(states, expected[0])
    assert following.tolist() == row[1:]


def test_dropout_is_on_the_sentence_vector_in_training() -> None:
    decoder, sentences = tiny(dropout=0.5), vectors()
    conditions: list[Tensor] = []
    for part in (decoder.start, decoder.of_sentence):
        part.register_forward_pre_hook(lambda _, inputs: conditions.append(inputs[0]))
    decoder.train().loss(sentences, padded(ROWS))
    assert torch.equal(conditions[0], conditions[1])  # the first state and the gates share a dropout mask
    assert 0.2 < (conditions[0] == 0).double().mean() < 0.8
    decoder.eval()
    assert decoder.loss(sentences, padded(ROWS))[0] == tiny().eval().loss(sentences, padded(ROWS))[0]


def test_initial_weights_are_the_published_ones() -> None:
    decoder = Decoder(vocabulary=1000, condition=64, word_size=30)
    assert 0.099 < decoder.embedding.weight.abs().max() <= 0.1
    assert (decoder.output.bias == 0).all()
    for part in (decoder.of_word, decoder.of_sentence, decoder.of_state):
        assert all(0.115 < weight.abs().max() <= 1 / 8 for weight in part.parameters())
    assert isinstance(decoder.start, torch.nn.Identity)


def test_scores_are_held_one_chunk_at_a_time() -> None:
    """No tensor of the loss or its gradient is larger than the scores of one chunk."""
    decoder = Decoder(vocabulary=5000, condition=4, word_size=3)
    decoder.chunk = 7
    row = [START, *range(10, 200), END]
    largest = 0

    class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    with LargestTensor():
        decoder.loss(torch.randn(2, 4, requires_grad=True), padded([row, row]))[0].backward()
    assert 0 < largest <= 7 * 5000


@pytest.mark.parametrize("chunk", [1, 4, 9, 50])
def test_the_sum_of_cross_entropies_equals_torchs(chunk: int) -> None:
    generator = torch.Generator().manual_seed(1)
    output = torch.nn.Linear(5, 13).double()
    inputs = [torch.empty(9, 5, dtype=torch.float64).requires_grad_(), *output.parameters()]
    for tensor in inputs:
        torch.nn.init.normal_(tensor, std=3.0, generator=generator)
    states = inputs[0]
    targets = torch.randint(13, (9,), generator=generator)
    total = cross_entropy_sum(output, states, targets, chunk)
    expected = torch.nn.functional.cross_entropy(output(states), targets, reduction="sum")
    assert_same_gradient(0.7 * total, 0.7 * expected, inputs, rtol=1e-12, atol=1e-12)
    large_scores_total = cross_entropy_sum(output, 1e4 * states.detach(), targets, chunk)
    assert torch.isfinite(large_scores_total)


def test_gradients_of_many_chunks_are_summed_in_float32() -> None:
    generator = torch.Generator().manual_seed(1)
    output = torch.nn.Linear(16, 50)
    for parameter in output.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    states = torch.randn(24_000, 16, generator=generator)
    targets = torch.randint(50, states.shape[:1], generator=generator)
    exact = torch.nn.functional.cross_entropy(output(states), targets, reduction="sum")
    expected = torch.autograd.grad(exact, [*output.parameters()])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = cross_entropy_sum(output, states, targets, 256)
    for gradient, wanted in zip(torch.autograd.grad(total, [*output.parameters()]), expected, strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - wanted).norm() / wanted.norm()) < 0.005  # 0.01 if the sums were bfloat16
