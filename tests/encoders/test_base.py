"""Sub-batches of similar length."""

from __future__ import annotations

import pytest
import torch

from data.batch import Tokens
from encoders import base
from encoders.api import Encoding
from tests.encoders.models import tiny, tokens_of


def test_sub_batches_give_the_vectors_of_one_pass_with_less_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LEAST_SAVING", 8)
    encoder = tiny()
    lengths = (5, 20, 3, 4, 20, 6, 11, 3, 12, 21)
    tokens = tokens_of(encoder, lengths)
    weights = list(encoder.parameters())
    expected = encoder(tokens).sentence
    weighting = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad((expected * weighting).sum(), weights, allow_unused=True)
    areas: list[int] = []
    forward = encoder.forward

    def counting(part: Tokens) -> Encoding:
        areas.append(part.ids.numel())
        return forward(part)

    monkeypatch.setattr(encoder, "forward", counting)
    vectors = encoder.vectors(tokens)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
    assert len(areas) > 2 and sum(areas) < 0.6 * tokens.ids.numel()
    gradients = torch.autograd.grad((vectors * weighting).sum(), weights, allow_unused=True)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-4)
    areas.clear()
    encoder.vectors(tokens_of(encoder, (7, 7, 7)))
    assert areas == [21]  # equal lengths: one sub-batch
