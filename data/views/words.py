"""Finds the words among a sentence's tokens, and deletes some of them.

    kept_w ~ Bernoulli(1 - share) for each word w; if none is kept, a random one

Wang, Reimers and Gurevych (2021), "TSDAE", section 3: words are deleted, each with the same probability.
"""

from __future__ import annotations

import string
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import decoders, models, pre_tokenizers

from data.tokenizer import is_byte_level
from data.views.perturbations import Perturbed, select

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BLANKS = ("▁", " ")  # the blank before a word: in SentencePiece; in byte-level BPE, once decoded
# Typographic marks are several bytes, and a small vocabulary may have them in parts. Hardly any letter begins with
# the same bytes as these two (U+2000 and following; the marks of Latin-1).
SPLIT_MARKS = ("“", "»")


def word_start_mask(tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """Returns a mask of the tokens in the vocabulary that begin a word, of shape (V,), bool.

    Words are separated by blanks, and each punctuation mark begins another word. In a vocabulary of whole words
    every token begins one. (The published program deletes the Treebank's words, which token ids do not show.)
    """
    backend = tokenizer.backend_tokenizer
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if isinstance(backend.model, models.WordPiece):
        inside = backend.model.continuing_subword_prefix
        return np.array([not token.startswith(inside) for token in tokens])
    if is_byte_level(backend):
        marks = [pre_tokenizers.ByteLevel(False).pre_tokenize_str(mark)[0][0] for mark in SPLIT_MARKS]
        parts = {mark[:end] for mark in marks for end in range(1, len(mark))}
        read = [decoders.ByteLevel().decode([token]) for token in tokens]
        return np.array([_begins(text) or token in parts for token, text in zip(tokens, read, strict=True)])
    if "Metaspace" in f"{backend.pre_tokenizer}{backend.decoder}":
        return np.array([_begins(token) for token in tokens])
    return np.ones(len(tokens), dtype=bool)


def _begins(text: str) -> bool:
    return text.startswith((*BLANKS, *string.punctuation)) or unicodedata.category(text[:1] or "a")[0] == "P"


def delete_words(tokens: np.ndarray, begins: np.ndarray, share: float, rng: np.random.Generator) -> Perturbed:
    """Deletes about ``share`` of the words of ``tokens`` (of shape (n,), n > 0); at least one word stays.

    Args:
        begins: which tokens of the vocabulary begin a word, of shape (V,), bool; the first of ``tokens`` always
            does.
        share: probability of deleting a word.
    """
    first = begins[tokens]
    first[0] = True
    word = np.cumsum(first) - 1  # of each token
    kept = rng.random(int(word[-1]) + 1) >= share
    if not kept.any():
        kept[rng.integers(len(kept))] = True
    return select(tokens, np.flatnonzero(kept[word]))
