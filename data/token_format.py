"""How content tokens become the input of one encoder: special tokens, padding, mask token, limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TokenFormat:
    """All that a view must know of an encoder's tokenizer; small, picklable, without the model.

    Attributes:
        prefix, suffix: special tokens put before and after the content ([CLS] / [SEP], <s> / </s>).
        pad_id: id that fills the block (never attended to).
        mask_id: id of the mask token, or None where the tokenizer has none.
        vocab_size: number of ids, special ones included; random replacements are drawn below it.
        max_length: positions of the encoder, special tokens included.
        special_ids: ids that masking never selects.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    mask_id: int | None
    vocab_size: int
    max_length: int
    special_ids: frozenset[int]

    @property
    def max_content(self) -> int:
        """Content tokens that fit beside the special ones."""
        return self.max_length - len(self.prefix) - len(self.suffix)

    def wrap(self, content: np.ndarray) -> np.ndarray:
        """Adds the special tokens to ``content`` (of shape (n,)), cut at the end if it exceeds the positions."""
        return np.concatenate([self.prefix, content[: self.max_content], self.suffix]).astype(np.int64)
