"""The words among a sentence's tokens, and a sentence that has lost some of them.

    kept_w ~ Bernoulli(1 - share) for each word w; one at random where none is left

Wang, Reimers and Gurevych (2021), "TSDAE", section 3: words are deleted, each with the same probability.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import models

from data.tokenizer import is_byte_level

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BLANKS = ("Ġ", "▁", " ")  # what stands for the blank before a word: byte-level BPE, SentencePiece, a bag of words


def beginnings(tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """Which tokens of the vocabulary begin a word, of shape (V,), bool.

    A word is what stands between blanks, and a punctuation mark after it is one of its own; in a vocabulary of
    whole words every token is one. (The Treebank's words, which the published program deletes, cannot be told
    from token ids.)
    """
    backend = tokenizer.backend_tokenizer
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if isinstance(backend.model, models.WordPiece):
        inside = backend.model.continuing_subword_prefix
        return np.array([not token.startswith(inside) for token in tokens])
    if is_byte_level(backend) or "Metaspace" in f"{backend.pre_tokenizer}{backend.decoder}":
        return np.array([token.startswith((*BLANKS, *string.punctuation)) for token in tokens])
    return np.ones(len(tokens), dtype=bool)


def delete_words(tokens: np.ndarray, begins: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """``tokens`` (of shape (n,), n > 0) without about ``share`` of their words, at least one of which stays.

    Args:
        begins: which tokens of the vocabulary begin a word, of shape (V,), bool; the first of ``tokens`` always
            does.
        share: probability of a word to be deleted.
    """
    first = begins[tokens]
    first[0] = True
    word = np.cumsum(first) - 1  # of each token
    kept = rng.random(int(word[-1]) + 1) >= share
    if not kept.any():
        kept[rng.integers(len(kept))] = True
    return tokens[kept[word]]
