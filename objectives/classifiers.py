"""The classifier that an objective puts on sentence vectors, discarded after training.

    Linear(D, width) -> f -> Linear(width, width) -> f -> Linear(width, classes)

Brahma 2018, section 4: two linear layers of 512 before the softmax. No f is named; InferSent's program, whose
classifier has the same layers, takes none by default.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Nonlinearity = Literal["none", "tanh", "relu"]
_LAYERS: dict[Nonlinearity, type[nn.Module]] = {"none": nn.Identity, "tanh": nn.Tanh, "relu": nn.ReLU}


class Classifier(nn.Module):
    """Three linear maps from (B, ``dimension``) to scores of shape (B, ``classes``).

    Args:
        dimension: D, of the sentence vectors.
        classes: number of classes.
        width: of the two layers between.
        nonlinearity: f.
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
        """Scores of shape (B, classes), before the softmax, of ``sentence`` of shape (B, D)."""
        return self.layers(sentence)

    def flops(self, rows: int) -> float:
        """Floating-point operations of one forward pass over ``rows`` vectors: 2 a weight and row."""
        return 2.0 * rows * sum(weight.numel() for weight in self.parameters() if weight.ndim == 2)
