"""Base class of the objectives: chance levels, default cost, corpus statistics, refused encoders."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from data.errors import UnfitError
from objectives.base import evaluating
from objectives.conssent import ConsSent
from objectives.quick_thoughts import QuickThoughts, choose_neighbours
from tests.tiny_encoder import TinyEncoder


@pytest.mark.parametrize(("size", "window"), [(6, 1), (9, 2)])
def test_chance_of_finding_a_neighbour(size: int, window: int) -> None:
    expected = QuickThoughts(batch_size=2 * size, window=window).chance_levels(size)["neighbour_accuracy"]
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(4000, 2, size, 16, generator=generator)
    accuracy = torch.stack([choose_neighbours(f, g, window)[1] for f, g in vectors]).mean()
    assert float(accuracy) == pytest.approx(expected, abs=0.015)


def test_an_encoder_that_ignores_word_order_is_refused() -> None:
    encoder = TinyEncoder()
    encoder.reads_order = False
    with pytest.raises(UnfitError):
        ConsSent(task="P").check_encoder(encoder)
    ConsSent(task="D").check_encoder(encoder)


def test_evaluating_restores_training_mode() -> None:
    on, off = nn.Dropout(0.5), nn.Dropout(0.5).eval()
    with pytest.raises(KeyError), evaluating(on, off):
        assert not (on.training or off.training or torch.is_grad_enabled())
        raise KeyError
    assert on.training and not off.training and torch.is_grad_enabled()
