"""Word embeddings to begin with, from how often tokens stand near each other (Levy, Goldberg and Dagan 2015).

    M(w, c) = max(0, log( #(w, c) sum_c' #(c')^a / ( #(w) #(c)^a ) ))      M ~ U S V^T      E = U S^(1/2)

#(w, c) counts c within ``WINDOW`` tokens of w, on either side. Smoothed contexts (a = 0.75) and the root of the
singular values are that paper's sections 3.2 and 3.3. A masked language model sees a seventh of its tokens only,
and its word embeddings, input and output alike, are long in learning from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from data.errors import UserError
from data.files import atomic_write
from data.sources.base import fingerprint
from data.tokenising import plain_tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WINDOW = 5  # tokens on either side
SMOOTHING = 0.75  # of contexts' counts
CHUNK_TEXT = 1 << 22  # characters tokenised at once
VERSION = "1"  # raise it where the same texts would give other vectors


def kept_vectors(
    texts: Callable[[], Iterable[str]],
    tokenizer: PreTrainedTokenizerFast,
    dimension: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
) -> np.ndarray:
    """``vectors`` of ``texts()``, kept under ``cache`` by the texts' name and the tokenizer."""
    if cache is None or texts_key is None:
        return vectors(texts(), tokenizer, dimension)
    key = fingerprint(VERSION, str(dimension), texts_key(), tokenizer.backend_tokenizer.to_str())
    path = cache / f"cooccurrence-{key}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        found = vectors(texts(), tokenizer, dimension)
        with atomic_write(path, "wb") as file:
            np.save(file, found, allow_pickle=False)
    return np.load(path, allow_pickle=False)


def vectors(texts: Iterable[str], tokenizer: PreTrainedTokenizerFast, dimension: int) -> np.ndarray:
    """Vectors of the tokenizer's V tokens, float32 of shape (V, dimension), of mean 0 and standard deviation 1.

    A token that is in none of the texts has a vector of zeros before the mean is taken off. The same texts give
    the same vectors. Memory grows with the different pairs of tokens.

    Raises:
        UserError: if the texts have too few different tokens.
    """
    counts = _counts(texts, tokenizer)
    near = (counts + counts.T).tocoo()
    if len(np.unique(near.row)) <= dimension:
        raise UserError(f"encoder.words=cooccurrence needs a corpus of more than {dimension} different tokens.")
    word = np.bincount(near.row, near.data, near.shape[0])
    context = word**SMOOTHING
    information = np.log(near.data * context.sum() / (word[near.row] * context[near.col]))
    positive = information > 0
    matrix = sparse.csr_matrix(
        (information[positive].astype(np.float32), (near.row[positive], near.col[positive])), near.shape
    )
    from sklearn.utils.extmath import randomized_svd  # late: it takes seconds

    left, values, _ = randomized_svd(matrix, dimension, n_iter=4, random_state=0)
    found = left * np.sqrt(values)
    found -= found.mean(axis=0)
    return (found / found.std()).astype(np.float32)


def _counts(texts: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> sparse.csr_matrix:
    """How often the second token follows the first within the window, of shape (V, V); not across texts."""
    tokenise, size = plain_tokenise(tokenizer)
    backend = tokenise.open()
    total = sparse.csr_matrix((size, size), dtype=np.float64)
    for chunk in _chunks(texts):
        rows = tokenise(backend, chunk)
        ids = rows.ids.astype(np.int64)
        text = np.repeat(np.arange(len(chunk)), rows.lengths)
        gaps = range(1, min(WINDOW, len(ids) - 1) + 1)
        keys = [(ids[:-gap] * size + ids[gap:])[text[:-gap] == text[gap:]] for gap in gaps]
        pairs, found = np.unique(np.concatenate([*keys, np.empty(0, np.int64)]), return_counts=True)
        total = total + sparse.csr_matrix((found.astype(np.float64), (pairs // size, pairs % size)), (size, size))
    return total


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    characters = 0
    for text in texts:
        chunk.append(text)
        characters += len(text)
        if characters >= CHUNK_TEXT:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
