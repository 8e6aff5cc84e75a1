"""Linear maps after the pooling, compared with those of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import encoders
from data.batch import Tokens
from encoders.dense import ACTIVATIONS
from tests.encoders.test_layout import dense, equal_to_theirs, folder_of


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dense_layers_equal_those_of_sentence_transformers(activation: str, tmp_path: Path) -> None:
    from sentence_transformers.models import Normalize

    maps = dense(32, 12, activation), dense(12, 20, "Identity", bias=False)
    ours = equal_to_theirs(folder_of(tmp_path, *maps, Normalize()), tmp_path)
    assert (ours.dimension, ours.state_dimension, len(ours.dense)) == (20, 32, 2)
    assert "AutoModel" not in (tmp_path / "ours" / "README.md").read_text()
    expected = ours.encode(["a"])
    ours.half().save(tmp_path / "half")
    np.testing.assert_allclose(encoders.load(tmp_path / "half").encode(["a"]), expected, atol=5e-3)


def test_a_dense_layer_trains(tmp_path: Path) -> None:
    encoder = encoders.load(folder_of(tmp_path, dense(32, 8)))
    ids = torch.tensor([[5, 6, 7]])
    encoder(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([3]))).sentence.sum().backward()
    gradients = {name: weight.grad for name, weight in encoder.named_parameters()}
    for name in ("dense.0.linear.weight", "dense.0.linear.bias"):
        gradient = gradients[name]
        assert gradient is not None and gradient.abs().sum() > 0
