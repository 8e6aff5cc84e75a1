"""The classifier on sentence vectors: layers, nonlinearity, cost."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from objectives.classifiers import Classifier


@pytest.mark.parametrize("nonlinearity", ["none", "tanh", "relu"])
def test_scores_equal_the_layers_written_out(nonlinearity: str) -> None:
    classifier = Classifier(6, 3, width=5, nonlinearity=nonlinearity)  # type: ignore[arg-type]
    one, two, three = (layer for layer in classifier.layers if isinstance(layer, nn.Linear))
    f = {"none": lambda x: x, "tanh": torch.tanh, "relu": lambda x: x.clamp(min=0)}[nonlinearity]
    vectors = torch.randn(4, 6)
    between = f(f(vectors @ one.weight.T + one.bias) @ two.weight.T + two.bias)
    torch.testing.assert_close(classifier(vectors), between @ three.weight.T + three.bias)


def test_defaults_are_the_papers() -> None:
    classifier = Classifier(4096)
    shapes = [tuple(layer.weight.shape) for layer in classifier.layers if isinstance(layer, nn.Linear)]
    assert shapes == [(512, 4096), (512, 512), (2, 512)]
    assert not any(isinstance(layer, nn.Tanh | nn.ReLU) for layer in classifier.layers)
    assert classifier.flops(10) == 2 * 10 * (512 * 4096 + 512 * 512 + 2 * 512)
