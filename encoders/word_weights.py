"""Weights of words in a mean of word vectors: TF-IDF, or SIF with the common direction removed.

    sentence = (I - u u^T) (1 / n) sum_i c(w_i) v(w_i)        (n known words)
    tfidf  c(w) = 1 + ln((1 + N) / (1 + N_w))     u = 0     (N sentences of a text, N_w of them with w)
    sif    c(w) = a / (a + p(w))                  u: first right singular vector of its N weighted means

A mean is linear, so both go into the word vectors, v'(w) = (I - u u^T) c(w) v(w), and nothing else changes. p(w)
is the frequency among all running words, those without a vector too; 0 for a word that is not in the text.

SIF: Arora, Liang and Ma (2017), "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", algorithm 1. They
take u from the sentences to be evaluated; here it is from the text that words are counted in, so that a
sentence's vector does not depend on the others of its test set. TF-IDF: the smoothed form of scikit-learn; the
frequency within the sentence is n_w / n, as the mean has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

import numpy as np
import torch
from scipy import sparse
from tokenizers import Tokenizer
from torch import Tensor

from data.errors import UserError

Weighting = Literal["none", "tfidf", "sif"]
MOST = 1_000_000  # sentences counted, the first of the text: more hardly change weights and u
CHUNK = 1 << 14  # sentences counted at a time


def weigh(
    table: Tensor, backend: Tokenizer, sentences: Iterable[str], how: Literal["tfidf", "sif"], a: float
) -> int:
    """Applies weights, and SIF's removal of the common direction, to the word vectors ``table`` (V, D), in place.

    Args:
        table: float32.
        backend: tokenizer that returns the ids of a sentence's known words, and none for the others.
        sentences: the text to count in.
        how: "tfidf" or "sif".
        a: the constant of SIF.

    Returns:
        The number of sentences that were counted.

    Raises:
        UserError: if no word of the text has a vector.
    """
    counts, running = _counted(backend, sentences, len(table))
    if counts.nnz == 0:
        raise UserError("none of the words to count has a vector", key="encoder.counts")
    if how == "tfidf":
        with_word = np.bincount(counts.indices, minlength=len(table))
        weights = 1 + np.log((1 + counts.shape[0]) / (1 + with_word))
    else:
        weights = a / (a + counts.sum(axis=0, dtype=np.float64) / running)
    table *= torch.from_numpy(np.asarray(weights, np.float32))[:, None]
    if how == "sif":
        common = torch.from_numpy(_common_direction(counts, table.numpy()))
        table.addr_(table @ common, common, alpha=-1)
    return counts.shape[0]


def _counted(backend: Tokenizer, sentences: Iterable[str], size: int) -> tuple[sparse.csr_array, int]:
    """Returns counts of V = ``size`` known words in N sentences, of shape (N, V), and the number of all words."""
    blocks, running, some = [], 0, islice(sentences, MOST)
    while chunk := list(islice(some, CHUNK)):
        rows = [encoding.ids for encoding in backend.encode_batch_fast(chunk, add_special_tokens=False)]
        ends = np.cumsum([0, *map(len, rows)])
        ids = np.fromiter((id for row in rows for id in row), np.int32, ends[-1])
        block = sparse.csr_array((np.ones(len(ids), np.float32), ids, ends), shape=(len(rows), size))
        block.sum_duplicates()
        blocks.append(block)
        running += sum(len(sentence.split()) for sentence in chunk)
    return sparse.vstack(blocks or [sparse.csr_array((0, size), dtype=np.float32)], format="csr"), running


def _common_direction(counts: sparse.csr_array, table: np.ndarray) -> np.ndarray:
    """Returns the first right singular vector, float32 (D,), of the N means of ``table`` by ``counts``."""
    moment = np.zeros((table.shape[1], table.shape[1]))
    for means in _means(counts, table):
        moment += means.T @ means
    return np.linalg.eigh(moment)[1][:, -1].astype(np.float32)


def _means(counts: sparse.csr_array, table: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, counts.shape[0], CHUNK):
        block = counts[first : first + CHUNK]
        yield (block @ table).astype(np.float64) / np.maximum(block.sum(axis=1), 1)[:, None]
