"""Projection head between sentence vector and contrastive loss, discarded after training.

    z = W2 sigma(W1 e)

Giorgi et al., first version, supplement 6.1 (after Chen et al. 2020). The hidden width is not stated there;
only hidden = output gives the supplement's parameter counts, so that is the default.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn


class ProjectionHead(nn.Module):
    """Two linear maps.

    Args:
        dimension: D of the sentence vector.
        width: of the output.
        hidden: width between the maps; None: the output's.
        activation: sigma, "relu" or "linear" (the identity).
        bias: whether the maps have biases.
    """

    def __init__(
        self,
        dimension: int,
        *,
        width: int = 128,
        hidden: int | None = None,
        activation: Literal["relu", "linear"] = "relu",
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.width = width
        hidden = hidden or width
        self.layers = nn.Sequential(
            nn.Linear(dimension, hidden, bias=bias),
            nn.ReLU() if activation == "relu" else nn.Identity(),
            nn.Linear(hidden, width, bias=bias),
        )

    def forward(self, sentence: Tensor) -> Tensor:
        """Maps (B, D) to (B, width)."""
        return self.layers(sentence)
