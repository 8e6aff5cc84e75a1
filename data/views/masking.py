"""Masks tokens for masked language modelling (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

import numpy as np

from data.batch import IGNORE
from data.token_format import TokenFormat


def mask_tokens(
    content: np.ndarray, format: TokenFormat, probability: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Masks tokens for MLM.

    Each position that is not special is selected with ``probability``, independently; of the selected, 80 % become
    the mask token, 10 % a random token of the whole vocabulary, 10 % stay.

    Args:
        content: token ids of shape (n,), without the added special tokens.
        format: of the encoder's tokenizer; it must have a mask token.
        probability: of selecting a position, in [0, 1].
        rng: source of randomness.

    Returns:
        Masked ids and labels (the original id, or ``IGNORE``), both of shape (n,), int64.
    """
    assert format.mask_id is not None, "Requirements.mask_token refuses such a tokenizer"
    content = content.astype(np.int64)  # stores keep small unsigned types, which cannot hold IGNORE
    selected = (rng.random(len(content)) < probability) & ~np.isin(content, list(format.special_ids))
    fate = rng.random(len(content))
    random_ids = rng.integers(format.vocab_size, size=len(content))
    masked = np.where(fate < 0.8, format.mask_id, np.where(fate < 0.9, random_ids, content))
    return np.where(selected, masked, content), np.where(selected, content, IGNORE)
