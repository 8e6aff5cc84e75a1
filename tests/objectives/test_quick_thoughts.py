"""QuickThoughts: the loss against loops, batches of neighbours, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from objectives.quick_thoughts import QuickThoughts, choose_neighbours
from tests.objectives.gensen.test_objective import build_corpus
from tests.objectives.gradients import assert_same_gradient, sample_batch
from tests.objectives.test_conssent_mt import TwoEncoders


def naive_loss_and_accuracy(f: Tensor, g: Tensor, window: int) -> tuple[Tensor, float]:
    """Returns loss and accuracy by their definitions, sentence by sentence."""
    losses, correct = [], 0
    for i in range(len(f)):
        scores = {j: f[i] @ g[j] for j in range(len(g)) if j != i}
        total = torch.logsumexp(torch.stack(list(scores.values())), 0)
        neighbours = [j for j in scores if abs(i - j) <= window]
        losses.append(total - torch.stack([scores[j] for j in neighbours]).mean())
        correct += max(scores, key=lambda j: float(scores[j].detach())) in neighbours
    return torch.stack(losses).mean(), correct / len(f)


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 6), st.integers(0, 1000))
def test_loss_and_gradient_equal_a_double_loop(window: int, extra: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    f, g = (torch.randn(2 * window + 2 + extra, 3, generator=rng, dtype=torch.float64) for _ in range(2))
    f.requires_grad_(), g.requires_grad_()
    loss, accuracy = choose_neighbours(f, g, window)
    expected, expected_accuracy = naive_loss_and_accuracy(f, g, window)
    assert float(accuracy) == pytest.approx(expected_accuracy) and not accuracy.requires_grad
    assert_same_gradient(loss, expected, (f, g))


def test_loss_and_accuracy_solved_by_hand() -> None:
    f, g = torch.eye(4), torch.eye(4).roll(1, 0)  # f_i . g_j = 1 where j = i + 1 mod 4, else 0
    log_sum = float(np.log(np.e + 2))
    # The first three score 1 with the next sentence, the last with the first, which is not its neighbour.
    expected = np.mean([log_sum - 1, log_sum - 1 / 2, log_sum - 1 / 2, log_sum])
    loss, accuracy = choose_neighbours(f, g, 1)
    assert float(loss) == pytest.approx(expected) and float(accuracy) == 0.75


def test_one_encoder_reads_the_sentence_and_the_other_its_neighbours() -> None:
    objective, encoder = QuickThoughts(batch_size=6, window=2), TwoEncoders(6, 6).double()
    batch = sample_batch(objective, [np.arange(5, 5 + length) for length in (3, 1, 9, 4, 4, 2)])
    loss = objective.loss(encoder, batch)
    f, g = (member(batch.tokens[name]).sentence for name, member in zip("fg", encoder.members, strict=True))
    expected, accuracy = naive_loss_and_accuracy(f, g, 2)
    torch.testing.assert_close(loss.total, expected)
    assert {name: float(value) for name, value in loss.parts.items()} == pytest.approx(
        {"neighbour": float(expected.detach()), "neighbour_accuracy": accuracy}
    )


def test_batches_are_consecutive_sentences_of_the_corpus(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path)
    [data] = QuickThoughts(batch_size=8).task_data(corpus).values()
    assert data.contiguous and data.units is corpus.store  # contiguous batches: tests/data/test_loader.py
