"""The classifier on sentence vectors: layers, nonlinearity, cost, loss."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from objectives.classifiers import Classifier, classification_loss


@pytest.mark.parametrize("nonlinearity", ["none", "tanh", "relu"])
def test_scores_equal_the_layers_written_out(nonlinearity: str) -> None:
    classifier = Classifier(6, 3, width=5, nonlinearity=nonlinearity)  # type: ignore[arg-type]
    first, second, third = (layer for layer in classifier.layers if isinstance(layer, nn.Linear))
    f = {"none": lambda x: x, "tanh": torch.tanh, "relu": lambda x: x.clamp(min=0)}[nonlinearity]
    vectors = torch.randn(4, 6)
    hidden = f(f(vectors @ first.weight.T + first.bias) @ second.weight.T + second.bias)
    torch.testing.assert_close(classifier(vectors), hidden @ third.weight.T + third.bias)


def test_loss_and_accuracy_equal_a_loop() -> None:
    scores, classes = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 1, 0])
    scores.requires_grad_()
    total, mean, accuracy = classification_loss(scores, classes)
    terms = [-(row.exp() / row.exp().sum())[label].log() for row, label in zip(scores, classes, strict=True)]
    correct = [int(row.argmax()) == int(label) for row, label in zip(scores, classes, strict=True)]
    torch.testing.assert_close(total, sum(terms) / 5)
    assert float(mean) == pytest.approx(float(total.detach())) and not mean.requires_grad
    assert float(accuracy) == pytest.approx(sum(correct) / 5)
    assert classification_loss(scores.bfloat16(), classes)[0].dtype == torch.float32
