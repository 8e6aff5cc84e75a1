"""Projection head between the sentence vectors and the contrastive loss, dropped at export.

    z = W2 sigma(W1 e)

Giorgi et al., first version, supplement 6.1 (after Chen et al. 2020). The hidden width is not stated; only a
hidden width equal to the output width gives the supplement's parameter counts, so this is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from data.ranges import Width


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Settings of a projection head.

    Attributes:
        width: width of the output.
        hidden: width of the hidden layer; None: that of the output.
        activation: sigma, "relu" or "linear" (the identity).
        bias: whether the linear maps have biases.
    """

    width: Width = 128
    hidden: Width | None = None
    activation: Literal["relu", "linear"] = "relu"
    bias: bool = False


class ProjectionHead(nn.Module):
    """Two linear maps from vectors of width ``dimension`` to the width in ``settings``."""

    def __init__(self, dimension: int, settings: Projection) -> None:
        super().__init__()
        hidden = settings.hidden or settings.width
        self.layers = nn.Sequential(
            nn.Linear(dimension, hidden, bias=settings.bias),
            nn.ReLU() if settings.activation == "relu" else nn.Identity(),
            nn.Linear(hidden, settings.width, bias=settings.bias),
        )

    def forward(self, sentence: Tensor) -> Tensor:
        """Maps ``sentence`` of shape (B, D) to shape (B, width)."""
        return self.layers(sentence)
