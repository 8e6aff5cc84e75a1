"""Encoder of a few hundred weights, small enough for gradient checks, with dropout, context and an MLM head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.token_format import TokenFormat
from encoders.base import Encoder, Encoding

FORMAT = TokenFormat(
    prefix=(0,),
    suffix=(2,),
    pad_id=1,
    mask_id=4,
    vocab_size=30,
    max_length=64,
    special_ids=frozenset({0, 1, 2, 3, 4}),
)


class TinyEncoder(Encoder):
    """Embeddings with dropout, mixed with their mean over real tokens; mean pooling; tied output layer."""

    def __init__(self, width: int = 6, dropout: float = 0.0, format: TokenFormat = FORMAT) -> None:
        super().__init__()
        self.format = format
        self.dimension = self.state_dimension = width
        self.weights, self.origin = "random", "tiny"
        self.embedding = nn.Embedding(format.vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self.mix = nn.Linear(2 * width, width)

    def forward(self, tokens: Tokens) -> Encoding:
        real = tokens.mask[:, :, None].to(self.embedding.weight.dtype)
        states = self.dropout(self.embedding(tokens.ids))
        context = (states * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        states = torch.tanh(self.mix(torch.cat([states, context.expand_as(states)], dim=2)))
        return Encoding(states, tokens.mask, (states * real).sum(1) / real.sum(1))

    @property
    def has_mlm_head(self) -> bool:
        return True

    def token_logits(self, states: Tensor) -> Tensor:
        return self.dropout(states) @ self.embedding.weight.T

    def write_files(self, folder: Path) -> dict[str, Any]:
        raise AssertionError("never exported")


def documents(count: int, length: int, seed: int = 0) -> list[np.ndarray]:
    """Returns ``count`` documents of random content tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(5, FORMAT.vocab_size, size=length) for _ in range(count)]
