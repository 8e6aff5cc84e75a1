"""Projection head: layers, parameter counts of the paper's supplement, refusals."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from objectives.projection import Projection, ProjectionHead


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_vectors_equal_the_layers_written_out(activation: str, bias: bool) -> None:
    head = ProjectionHead(6, Projection(width=3, hidden=5, activation=activation, bias=bias))  # type: ignore[arg-type]
    first, second = (layer for layer in head.layers if isinstance(layer, nn.Linear))
    vectors = torch.randn(4, 6)
    hidden = vectors @ first.weight.T + (first.bias if bias else 0)
    hidden = hidden.clamp(min=0) if activation == "relu" else hidden
    torch.testing.assert_close(head(vectors), hidden @ second.weight.T + (second.bias if bias else 0))
    assert (first.bias is not None) == (second.bias is not None) == bias


@pytest.mark.parametrize(("width", "count"), [(128, 114_688), (768, 1_179_648)])
def test_parameter_counts_match_the_supplement(width: int, count: int) -> None:
    head = ProjectionHead(768, Projection(width=width))
    assert sum(weight.numel() for weight in head.parameters()) == count
