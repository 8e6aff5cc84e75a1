"""The masked-language-model loss, computed only at selected positions."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from data.batch import IGNORE
from objectives import masked_lm
from objectives.masked_lm import CrossEntropyOfScores, masked_lm_sum
from tests.objectives.gradients import assert_same_gradient
from tests.tiny_encoder import TinyEncoder


@pytest.mark.parametrize("scores_at_once", [100, 10**8])  # three rows of 30 scores, or all rows
@pytest.mark.parametrize("scores_in_cache", [60, 2**19])
def test_loss_and_gradient_equal_the_full_projection(
    scores_at_once: int, scores_in_cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masked_lm, "SCORES_AT_ONCE", scores_at_once)
    monkeypatch.setattr(masked_lm, "SCORES_IN_CACHE", scores_in_cache)
    encoder = TinyEncoder().double()
    states = torch.randn(4, 5, 6, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(5, 30, (4, 5)).where(torch.rand(4, 5) < 0.6, IGNORE)
    inputs = [states, encoder.embedding.weight]
    ours = masked_lm_sum(encoder, states, labels)
    expected = F.cross_entropy(encoder.token_logits(states).flatten(0, 1), labels.flatten(), reduction="sum")
    assert_same_gradient(ours, expected, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cross_entropy_of_half_precision_scores_is_in_float32(dtype: torch.dtype) -> None:
    scores = (torch.randn(50, 30, generator=torch.Generator().manual_seed(0)) * 9).to(dtype).requires_grad_()
    targets = torch.arange(50) % 30
    ours = CrossEntropyOfScores.apply(scores, targets)
    expected = F.cross_entropy(scores.float(), targets, reduction="sum")
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected)
    for a, b in zip(*(torch.autograd.grad(loss / 7, scores) for loss in (ours, expected)), strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a, b, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


def test_without_masked_tokens_the_loss_is_zero() -> None:
    states = torch.randn(2, 3, 6, requires_grad=True)
    loss = masked_lm_sum(TinyEncoder(), states, torch.full((2, 3), IGNORE))
    loss.backward()
    assert loss.item() == 0.0
