"""Weights of words in a mean of word vectors: SIF, with the common direction removed.

    sentence = (I - u u^T) (1 / n) sum_i c(w_i) v(w_i)        c(w) = a / (a + p(w))        (n known words)

u is the first right singular vector of the weighted means of the sentences of a text. A mean is linear, so both go
into the word vectors, v'(w) = (I - u u^T) c(w) v(w), and nothing else changes. p(w) is the frequency among all
running words, those without a vector too; 0 for a word that is not in the text.

Arora, Liang and Ma (2017), "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", algorithm 1. They
take u from the sentences to be evaluated; here it is from the text that words are counted in, so that a
sentence's vector does not depend on the others of its test set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from data.errors import UserError

Weighting = Literal["none", "sif"]
MOST = 1_000_000  # sentences counted, the first of the text: more hardly change weights and u
CHUNK = 1 << 14  # sentences whose means are computed at a time


def weigh(table: Tensor, words: Sequence[str], sentences: Iterable[str], a: float) -> int:
    """Applies SIF's weights, and its removal of the common direction, to word vectors, in place.

    Args:
        table: vectors of V words, of shape (V, D), float32.
        words: V words.
        sentences: the text to count in, words separated by white space.
        a: the constant of SIF.

    Returns:
        The number of sentences that were counted.

    Raises:
        UserError: if no word of the text has a vector.
    """
    from sklearn.feature_extraction.text import CountVectorizer  # late, as it takes a second to import

    texts = list(islice(sentences, MOST))
    vectorizer = CountVectorizer(vocabulary=words, analyzer=str.split, dtype=np.float32)
    counts = sparse.csr_array(vectorizer.transform(texts))  # (N, V)
    if counts.nnz == 0:
        raise UserError("none of the words to count has a vector", key="encoder.counts")
    weights = a / (a + counts.sum(axis=0, dtype=np.float64) / sum(len(text.split()) for text in texts))
    table *= torch.from_numpy(weights.astype(np.float32))[:, None]
    common = torch.from_numpy(common_direction(counts, table.numpy()))
    table.addr_(table @ common, common, alpha=-1)
    return len(texts)


def common_direction(counts: sparse.csr_array, table: np.ndarray) -> np.ndarray:
    """Returns the first right singular vector, float32 (D,), of N means of word vectors.

    Args:
        counts: of V words in N sentences, of shape (N, V).
        table: word vectors, of shape (V, D).
    """
    moment = np.zeros((table.shape[1], table.shape[1]))
    for first in range(0, counts.shape[0], CHUNK):
        block = counts[first : first + CHUNK]
        means = (block @ table).astype(np.float64) / np.maximum(block.sum(axis=1), 1)[:, None]
        moment += means.T @ means
    return np.linalg.eigh(moment)[1][:, -1].astype(np.float32)
