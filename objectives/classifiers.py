"""Classifier of sentence vectors, dropped at export, and its loss.

    Linear(D, width) -> f -> Linear(width, width) -> f -> Linear(width, classes)

Brahma (2018), section 4: two linear layers of width 512 before the softmax. The paper names no non-linearity f;
InferSent's program, whose classifier has the same layers, uses none by default.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from objectives.functional import at_least_float32
from objectives.gather import global_mean, sum_over_processes

Nonlinearity = Literal["none", "tanh", "relu"]
_LAYERS: dict[Nonlinearity, type[nn.Module]] = {"none": nn.Identity, "tanh": nn.Tanh, "relu": nn.ReLU}


class Classifier(nn.Module):
    """Three linear layers from sentence vectors of shape (B, D) to scores of shape (B, ``classes``).

    Args:
        dimension: D, width of a sentence vector.
        classes: number of classes.
        width: width of both hidden layers.
        nonlinearity: f, after each hidden layer.
    """

    def __init__(
        self, dimension: int, classes: int = 2, *, width: int = 512, nonlinearity: Nonlinearity = "none"
    ) -> None:
        super().__init__()
        between = _LAYERS[nonlinearity]
        self.layers = nn.Sequential(
            nn.Linear(dimension, width),
            between(),
            nn.Linear(width, width),
            between(),
            nn.Linear(width, classes),
        )

    def forward(self, sentence: Tensor) -> Tensor:
        """Computes scores of shape (B, classes), before the softmax, from ``sentence`` of shape (B, D)."""
        return self.layers(sentence)


def classification_loss(scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the cross-entropy of ``classes`` and the accuracy, as means over the global batch.

    Args:
        scores: before the softmax, of shape (B, number of classes).
        classes: of shape (B,), int64.

    Returns:
        The loss as a scalar with gradient (see ``global_mean``), the loss detached, and the accuracy.
    """
    scores = at_least_float32(scores)
    total, mean, count = global_mean(F.cross_entropy(scores, classes, reduction="sum"), len(classes))
    correct = sum_over_processes((scores.argmax(dim=1) == classes).to(scores.dtype).sum()) / count
    return total, mean, correct
