"""What every encoder promises: tokens in, states and one sentence vector out; encode, save, load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UserError
from data.grouping import length_groups
from data.schema import validated
from data.token_format import TokenFormat
from encoders import inference
from encoders.kernels import PRECISIONS, Precision

NO_LIMIT = 1_000_000  # tokens of an input: as good as none
MOST_GROUPS = 8
WORTH = 1024  # padded tokens that a further pass over a sub-batch has to spare on a CPU: see benchmarks/padding.py


class Encoding(NamedTuple):
    """What an encoder makes of B sequences of at most T tokens.

    Attributes:
        states: one state a token, of shape (B, T, H).
        mask: of shape (B, T), bool; True at real tokens.
        sentence: one vector a sequence, of shape (B, D).
    """

    states: Tensor
    mask: Tensor
    sentence: Tensor


class Encoder(nn.Module, ABC):
    """Base of all encoders.

    Attributes:
        tokenizer: a Hugging Face fast tokenizer.
        format: how its content tokens become input (see TokenFormat).
        dimension: D, width of a sentence vector.
        state_dimension: H, width of a token's state.
        weights: what its weights once began from: "pretrained", "bundled" or "random".
        origin: one line that says exactly which weights (hub name, folder, or the random shape), and from
            which folder of ours they are continued.
        untrained: whether the weights were freshly drawn in this process, not read from anywhere.
        opens_elsewhere: whether sentence-transformers opens what ``save`` writes.
        reads_order: whether the order of the tokens changes a sentence vector.
        computes_padding: whether padding costs what tokens cost.
        precision: of products in ``encode``: "fp32", or on a GPU "tf32" (10 bits of each factor) or "bf16"
            (8 bits), which are faster; set by ``encode_in``.
    """

    tokenizer: Any
    format: TokenFormat
    dimension: int
    state_dimension: int
    weights: str
    origin: str
    untrained: bool = False
    opens_elsewhere: bool = True
    reads_order: bool = True
    computes_padding: bool = False
    precision: Precision = "fp32"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        validated(cls, "encoder")

    @abstractmethod
    def forward(self, tokens: Tokens) -> Encoding:
        """Encodes ``tokens`` of shape (B, T)."""

    def vectors(self, tokens: Tokens) -> Tensor:
        """Sentence vectors of ``tokens``, of shape (B, D), for those who need no states.

        On a CPU an encoder that computes padding runs over sub-batches of similar length.
        """
        groups: list[np.ndarray] = []
        if self.computes_padding and tokens.ids.device.type == "cpu" and not self.packs(tokens):
            groups = length_groups(tokens.lengths.numpy(), MOST_GROUPS, WORTH)
        if len(groups) < 2:
            return self(tokens).sentence
        parts = [self(tokens.rows(torch.from_numpy(rows))).sentence for rows in groups]
        return torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(groups)))]

    def padded_because(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        """Returns why ``forward`` does not pack a batch into one sequence without padding, or None if it does.

        Args:
            device: of the batch.
            dtype: that its products are computed in.
            longest: tokens of its longest row.
        """
        return f"{type(self).__name__} has no attention that could be packed"

    def packs(self, tokens: Tokens) -> bool:
        """Returns whether ``forward`` packs ``tokens``; callers then need not group them by length."""
        longest = int(tokens.lengths.max()) if len(tokens) else 0
        device = tokens.ids.device
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        else:
            dtype = next((weight.dtype for weight in self.parameters()), torch.float32)
        return longest > 0 and self.padded_because(device, dtype, longest) is None

    @property
    @abstractmethod
    def has_mlm_head(self) -> bool:
        """Whether ``token_logits`` works for this encoder."""

    @abstractmethod
    def token_logits(self, states: Tensor) -> Tensor:
        """Scores over the vocabulary, of shape (M, V), for M selected states of shape (M, H): the MLM head."""

    @abstractmethod
    def forward_flops(self, tokens: int, length: float) -> float:
        """Floating-point operations of one forward pass over ``tokens`` tokens in rows of ``length``."""

    @abstractmethod
    def head_flops(self, tokens: int) -> float:
        """Floating-point operations of ``token_logits`` for ``tokens`` states."""

    @property
    def pooled_dimension(self) -> int:
        """Width of what ``pooled`` gives."""
        return self.dimension

    def add_pooler(self) -> None:
        """Makes what ``pooled`` takes, where the encoder could have it and has not."""

    def pooled(self, encoding: Encoding) -> Tensor:
        """What a classifier of whole inputs reads, of shape (B, ``pooled_dimension``): the sentence vectors."""
        return encoding.sentence

    @property
    def poolings(self) -> tuple[str, ...]:
        """The ways from states to a vector that ``pool_by`` can choose among; empty where the way is fixed."""
        return ()

    def pool_by(self, pooling: str) -> None:
        """Takes another of ``poolings``; the weights stay.

        Raises:
            ValueError: if it is none of them.
        """
        if pooling not in self.poolings:
            ways = f"must be one of {', '.join(self.poolings)}" if self.poolings else "is fixed"
            raise ValueError(f"pooling of a {type(self).__name__} {ways}. Got {pooling} instead.")

    def encode_in(self, precision: Precision) -> None:
        """Sets the ``precision`` of ``encode``; the weights stay.

        Raises:
            ValueError: if it is none of those.
            UserError: if the encoder's device does not have it.
        """
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}. Got {precision} instead.")
        device = next(self.parameters()).device
        if precision == "tf32" and device.type != "cuda":
            raise UserError(f"precision=tf32 needs a CUDA GPU, not {device.type}: use fp32 or bf16.")
        self.precision = precision

    def settings(self) -> dict[str, Any]:
        """What decides on ``encode`` beside class, weights, tokenizer and ``format``, as JSON can hold it."""
        return {}

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_tokens: int = 8192,
        normalize: bool = False,
        progress: bool = False,
    ) -> np.ndarray:
        """Vectors of ``sentences``, float32 of shape (n, D), in the order given.

        Sorted by length inside; a sentence's vector is the same alone and in any batch.
        ``batch_tokens`` bounds the padded tokens of a forward pass.
        """
        return inference.encode(self, sentences, batch_tokens=batch_tokens, normalize=normalize, progress=progress)

    @abstractmethod
    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` opens, and sentence-transformers if ``opens_elsewhere``.

        ``card`` becomes its README.md; None writes what is known of the weights.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path | str) -> Encoder:
        """Opens what ``save`` wrote."""
