"""Base class of the objectives: chance levels, default cost, corpus statistics, refused encoders."""

from __future__ import annotations

import pytest
import torch

from objectives.quick_thoughts import QuickThoughts, choose_neighbours


@pytest.mark.parametrize(("size", "window"), [(6, 1), (9, 2)])
def test_chance_of_finding_a_neighbour(size: int, window: int) -> None:
    expected = QuickThoughts(batch_size=2 * size, window=window).chance_levels(size)["neighbour_accuracy"]
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(4000, 2, size, 16, generator=generator)
    accuracy = torch.stack([choose_neighbours(f, g, window)[1] for f, g in vectors]).mean()
    assert float(accuracy) == pytest.approx(expected, abs=0.015)
