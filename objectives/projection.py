"""Projection head between sentence vector and contrastive loss, discarded after training.

    z = W2 sigma(W1 e)

Giorgi et al., first version, supplement 6.1 (after Chen et al. 2020). The hidden width is not stated there;
only hidden = output gives the supplement's parameter counts, so that is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from data.ranges import Width
from data.schema import require


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Settings of the head.

    Attributes:
        width: of the output.
        hidden: width between the maps; None: the output's.
        activation: sigma, "relu" or "linear" (the identity).
        bias: whether the maps have biases.

    Raises:
        ValueError: if a width is not positive or the activation unknown.
    """

    width: Width = 128
    hidden: Width | None = None
    activation: Literal["relu", "linear"] = "relu"
    bias: bool = False

    def __post_init__(self) -> None:
        require(type(self), vars(self), "objective.projection")


class ProjectionHead(nn.Module):
    """Two linear maps from (B, ``dimension``) to (B, width)."""

    def __init__(self, dimension: int, settings: Projection) -> None:
        super().__init__()
        hidden = settings.hidden or settings.width
        self.layers = nn.Sequential(
            nn.Linear(dimension, hidden, bias=settings.bias),
            nn.ReLU() if settings.activation == "relu" else nn.Identity(),
            nn.Linear(hidden, settings.width, bias=settings.bias),
        )

    def forward(self, sentence: Tensor) -> Tensor:
        """Maps (B, D) to (B, width)."""
        return self.layers(sentence)
