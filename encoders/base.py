"""Base of all encoders: tokens in, states and one sentence vector out; encode, save, load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UserError
from data.files import atomic_folder, write_json
from data.grouping import length_groups
from data.token_format import TokenFormat
from encoders import inference
from encoders.export import model_card
from encoders.folder import MARKER, class_name, refuse_other
from encoders.inference import SentenceEncoder
from encoders.kernels import PRECISIONS, Precision

MOST_GROUPS = 8
LEAST_SAVING = 1024  # padding tokens that a further sub-batch must save on a CPU: see benchmarks/padding.py


class Encoding(NamedTuple):
    """Output of an encoder for B sequences of at most T tokens.

    Attributes:
        states: one for each token, of shape (B, T, H).
        mask: of shape (B, T), bool; True at real tokens.
        sentence: one vector for each sequence, of shape (B, D).
    """

    states: Tensor
    mask: Tensor
    sentence: Tensor


class Encoder(SentenceEncoder, nn.Module, ABC):
    """Base of all encoders.

    Attributes:
        tokenizer: a Hugging Face fast tokenizer.
        format: how its content tokens become input (see TokenFormat).
        dimension: D, width of a sentence vector.
        state_dimension: H, width of a token's state.
        weights: where its weights first came from: "pretrained", "own" (a folder), "bundled" or "random".
        origin: one line that names the weights exactly (hub name, folder, or the random shape), and the exported
            folders through which they came.
        untrained: whether the weights were randomly initialised in this process, not read from a file.
        opens_elsewhere: whether sentence-transformers opens what ``save`` writes.
        reads_order: whether the order of the tokens changes a sentence vector.
        computes_padding: whether padding takes as long to compute as tokens.
        precision: of matrix products in ``encode``: "fp32", or on a GPU "tf32" (10 bits of each factor) or "bf16"
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

    @abstractmethod
    def forward(self, tokens: Tokens) -> Encoding:
        """Encodes ``tokens`` of shape (B, T)."""

    def vectors(self, tokens: Tokens) -> Tensor:
        """Returns sentence vectors of ``tokens``, of shape (B, D), where no states are needed.

        On a CPU an encoder that computes padding runs over sub-batches of similar length.
        """
        groups: list[np.ndarray] = []
        if self.computes_padding and tokens.ids.device.type == "cpu" and not self.packs(tokens):
            groups = length_groups(tokens.lengths.numpy(), MOST_GROUPS, LEAST_SAVING)
        if len(groups) < 2:
            return self(tokens).sentence
        parts = [self(tokens.rows(torch.from_numpy(rows))).sentence for rows in groups]
        return torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(groups)))]

    def padding_reason(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
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
        return longest > 0 and self.padding_reason(device, dtype, longest) is None

    @property
    def has_mlm_head(self) -> bool:
        """Returns whether there is a masked-language-model (MLM) head, ``token_logits``."""
        return False

    def token_logits(self, states: Tensor) -> Tensor:
        """Computes the MLM head's scores, of shape (M, V), for M selected states of shape (M, H).

        Raises:
            ValueError: if there is none.
        """
        raise ValueError(f"A {type(self).__name__} has no MLM head.")

    @abstractmethod
    def forward_flops(self, tokens: int, length: float) -> float:
        """Returns the floating-point operations of a forward pass over ``tokens`` tokens in rows of ``length``."""

    def head_flops(self, tokens: int) -> float:
        """Returns the floating-point operations of ``token_logits`` for ``tokens`` states."""
        return 0.0

    @property
    def sequence_dimension(self) -> int:
        """Width of ``sequence_features``."""
        return self.dimension

    def add_pooler(self) -> None:
        """Adds the architecture's pooler if the weights lack one."""

    def sequence_features(self, encoding: Encoding) -> Tensor:
        """Returns the input of a classifier of whole sequences, of shape (B, ``sequence_dimension``).

        These are the sentence vectors, unless the architecture has a pooler.
        """
        return encoding.sentence

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings that ``pool_by`` can choose among; empty if the pooling is fixed."""
        return ()

    def pool_by(self, pooling: str) -> None:
        """Changes the pooling to another of ``poolings``; the weights stay.

        Raises:
            UserError: if it is none of them.
        """
        if pooling not in self.poolings:
            ways = f"must be one of {', '.join(self.poolings)}" if self.poolings else "is fixed"
            raise UserError(f"that of a {type(self).__name__} {ways}", key=f"pooling={pooling}")

    def encode_in(self, precision: Precision) -> None:
        """Sets the ``precision`` of ``encode``; the weights stay.

        Raises:
            UserError: if it is not one of ``PRECISIONS``, or the encoder's device does not support it.
        """
        device = next(self.parameters()).device
        if precision not in PRECISIONS or (precision == "tf32" and device.type != "cuda"):
            allowed = [name for name in PRECISIONS if name != "tf32" or device.type == "cuda"]
            raise UserError(f"must be one of {', '.join(allowed)} on {device.type}", key=f"precision={precision}")
        self.precision = precision

    def settings(self) -> dict[str, Any]:
        """Returns what ``encode`` depends on besides class, weights, tokenizer and ``format``, as JSON values."""
        return {}

    def _encode(
        self, sentences: list[str], batch_size: int | None, batch_tokens: int | None, progress: bool
    ) -> np.ndarray:
        return inference.encode(self, sentences, batch_size, batch_tokens, progress)

    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` opens, and sentence-transformers if ``opens_elsewhere``; all or nothing.

        Args:
            folder: a new folder, or an encoder's folder to be replaced.
            card: text of its README.md; None: a model card of what is known about the weights.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's.
        """
        folder = Path(folder)
        refuse_other(folder)
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        marker = {"class": class_name(self), "weights": self.weights, "origin": self.origin}
        with atomic_folder(folder) as unfinished:
            write_json(unfinished / MARKER, marker | self.write_files(unfinished))
            card = card or model_card(title=folder.name, encoder=self)
            (unfinished / "README.md").write_text(card, encoding="utf-8")

    @abstractmethod
    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes weights, tokenizer and settings into ``folder``; returns further keys for ``encoder.json``."""

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Opens a folder that ``save`` wrote."""
        return cls(path=str(folder))
