"""Masking frequencies and the loss at selected positions alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from data.batch import IGNORE
from data.randomness import generator
from objectives import masked_lm
from objectives.masked_lm import cross_entropy_of_scores, mask_tokens, masked_lm_sum
from tests.tiny import FORMAT, TinyEncoder


@pytest.mark.parametrize(("gib", "scores"), [(8, 10**8), (128, 2**30)])
def test_a_large_gpu_keeps_more_scores(gib: int, scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(total_memory=gib * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert masked_lm._scores_at_once(torch.device("cuda")) == scores
    assert masked_lm._scores_at_once(torch.device("cpu")) == 10**8


def test_frequencies() -> None:
    content = generator(0).integers(5, 30, size=400_000)
    hidden, labels = mask_tokens(content, FORMAT, 0.15, generator(1))
    selected = labels != IGNORE
    assert selected.mean() == pytest.approx(0.15, abs=0.003)
    assert (labels[selected] == content[selected]).all() and (hidden[~selected] == content[~selected]).all()
    kept, drawn = content[selected], hidden[selected]
    assert (drawn == FORMAT.mask_id).mean() == pytest.approx(0.8 + 0.1 / 30, abs=0.006)
    # a random token of the whole vocabulary is the original one in 1 of 30 cases
    assert (drawn == kept).mean() == pytest.approx(0.1 + 0.1 / 30, abs=0.006)
    others = drawn[(drawn != FORMAT.mask_id) & (drawn != kept)]
    assert set(others) == set(range(30)) - {FORMAT.mask_id}


def test_special_tokens_in_the_text_are_never_selected() -> None:
    content = np.tile([0, 2, 3, 4, 7], 1000)
    hidden, labels = mask_tokens(content, FORMAT, 0.9, generator(2))
    special = content < 5
    assert (labels[special] == IGNORE).all() and (hidden[special] == content[special]).all()
    assert (labels[~special] == 7).mean() > 0.8


def test_types_of_a_store_are_widened() -> None:
    content = np.arange(5, 30, dtype=np.uint16)
    hidden, labels = mask_tokens(content, FORMAT, 0.5, generator(3))
    wide = mask_tokens(content.astype(np.int64), FORMAT, 0.5, generator(3))
    assert np.array_equal(hidden, wide[0]) and np.array_equal(labels, wide[1])
    assert labels.min() == IGNORE


@pytest.mark.parametrize("scores_at_once", [100, 10**8])  # three rows of 30, and all
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
    full = F.cross_entropy(encoder.token_logits(states).flatten(0, 1), labels.flatten(), reduction="sum")
    torch.testing.assert_close(ours, full)
    for a, b in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(full, inputs), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_of_scores_in_half_precision(dtype: torch.dtype) -> None:
    scores = (torch.randn(50, 30, generator=torch.Generator().manual_seed(0)) * 9).to(dtype).requires_grad_()
    wanted = torch.arange(50) % 30
    ours, full = cross_entropy_of_scores(scores, wanted), F.cross_entropy(scores.float(), wanted, reduction="sum")
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, full)
    for a, b in zip(*(torch.autograd.grad(loss / 7, scores) for loss in (ours, full)), strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a, b, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)


def test_nothing_selected_costs_nothing() -> None:
    states = torch.randn(2, 3, 6, requires_grad=True)
    loss = masked_lm_sum(TinyEncoder(), states, torch.full((2, 3), IGNORE))
    loss.backward()
    assert loss.item() == 0.0
