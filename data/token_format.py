"""The format of an encoder's input: special tokens, padding, mask token, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TokenFormat:
    """The facts about an encoder's tokenizer that views need; small, picklable, without the model.

    Attributes:
        prefix, suffix: special tokens put before and after the content ([CLS] / [SEP], <s> / </s>).
        pad_id: id that fills rows to the longest (never attended to).
        mask_id: id of the mask token, or None where the tokenizer has none.
        vocab_size: number of ids, special ones included; random replacements are sampled below it.
        max_length: positions of the encoder, special tokens included.
        special_ids: ids that masking never selects.
        middle: special tokens put between the two segments of a pair ([SEP], </s> </s>).
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    pad_id: int
    mask_id: int | None
    vocab_size: int
    max_length: int
    special_ids: frozenset[int]
    middle: tuple[int, ...] = ()

    @property
    def max_content(self) -> int:
        """Number of content tokens that fit beside the special ones."""
        return self.max_length - len(self.prefix) - len(self.suffix)

    def wrap(self, content: np.ndarray) -> np.ndarray:
        """Adds the special tokens to ``content`` (of shape (n,)), which is cut to ``max_content``.

        Returns:
            Ids of shape (T,), int64, with T of ``max_length`` at most.
        """
        return np.concatenate([self.prefix, content[: self.max_content], self.suffix]).astype(np.int64)

    @property
    def max_pair(self) -> int:
        """Number of content tokens of two segments that fit beside the special ones."""
        return self.max_content - len(self.middle)

    def wrap_pair(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Joins two segments (of shapes (n,) and (m,), which must fit) into a row (Devlin et al. 2019, figure 2).

        Returns:
            Ids and segment ids of the row, both of shape (T,), int64.
        """
        ids = np.concatenate([self.prefix, first, self.middle, second, self.suffix]).astype(np.int64)
        begins = len(self.prefix) + len(first) + len(self.middle)
        return ids, (np.arange(len(ids)) >= begins).astype(np.int64)


def separator(tokenizer: Any) -> tuple[int, ...]:
    """Returns the ids that a fast ``tokenizer`` puts between two texts; if none, its end token, if any."""
    pair = tokenizer("a", "b")
    owners = pair.sequence_ids()  # 0 and 1 are the texts'
    begins, ends = len(owners) - owners[::-1].index(0), owners.index(1)
    end = tokenizer.eos_token_id if tokenizer.sep_token_id is None else tokenizer.sep_token_id
    return tuple(pair["input_ids"][begins:ends]) or (() if end is None else (end,))
