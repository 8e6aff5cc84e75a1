"""Initial values of a random transformer: word embeddings from co-occurrence, heads that attend to neighbours.

The embeddings are those of Levy, Goldberg and Dagan (2015):

    M(w, c) = max(0, log( #(w, c) sum_c' #(c')^a / ( #(w) #(c)^a ) ))      M ~ U S V^T      E = U S^(1/2)

#(w, c) counts c within ``WINDOW`` tokens of w, on either side. Smoothed contexts (a = 0.75) and the root of the
singular values are that paper's sections 3.2 and 3.3. A masked language model predicts only a seventh of its
tokens, so its word embeddings (input and output) are slow to learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from data.errors import UserError
from data.files import atomic_write
from data.sources.base import fingerprint
from data.tokenising import plain_tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WINDOW = 5  # tokens on either side
SMOOTHING = 0.75  # of contexts' counts
CHUNK_TEXT = 1 << 22  # characters tokenised at a time
VERSION = "1"  # to be raised when the same texts would give other vectors
# Of heads that initially attend to neighbours: wavelengths in tokens, and the factor of attention scores.
SHORTEST_WAVE, LONGEST_WAVE, SHARPNESS = 4.0, 400.0, 4.0


def begin(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    heads: str,
    words: str,
    texts: Callable[[], Iterable[str]] | None,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
) -> None:
    """Sets the initial values that ``Transformer``'s arguments ``heads`` and ``words`` ask for.

    Raises:
        ValueError: if the family does not support them.
        UserError: if there is no corpus, or too small a one.
    """
    if heads == "neighbours":
        begin_with_neighbours(model)
    if words == "cooccurrence":
        if texts is None:
            raise UserError("encoder.words=cooccurrence counts in a corpus, and none is given.")
        table: Any = model.get_input_embeddings()
        width = table.embedding_dim - (head_size(model) if heads == "neighbours" else 0)
        begin_with_words(model, kept_vectors(texts, tokenizer, width, cache, texts_key), tokenizer.all_special_ids)


def kept_vectors(
    texts: Callable[[], Iterable[str]],
    tokenizer: PreTrainedTokenizerFast,
    dimension: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
) -> np.ndarray:
    """Returns ``vectors`` of ``texts()``, cached by ``texts_key()`` and the tokenizer."""
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
    """Computes vectors of V tokens, float32 of shape (V, dimension), of mean 0 and standard deviation 1.

    A token that is in none of the texts has a vector of zeros before the mean is subtracted. The same texts give
    the same vectors. Memory grows with the number of distinct pairs of tokens.

    Raises:
        UserError: if the texts have too few distinct tokens.
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
    """Counts how often the second token follows the first within the window, (V, V); not across texts."""
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


def begin_with_neighbours(model: PreTrainedModel) -> None:
    """Makes the first layer of an untrained ``model`` attend to the neighbours of a token.

    The last dimensions of its embeddings, as many as a head has, are sinusoids of a token's position and hold
    nothing of the word. The heads of the first layer are initialised to rotations of these sinusoids: the first
    attends mostly to the token before, the second to the one after, the next two to those beyond. Masked words are
    predicted mainly from their neighbours, which randomly initialised heads take long to find. All other weights
    keep the family's initialisation, and all weights are trained.

    Raises:
        ValueError: if the family has no learned position embeddings, attention unlike BERT's, or an odd number of
            dimensions per head.

    References: Vaswani et al. (2017), "Attention Is All You Need", section 3.5: sinusoids, of which a shift is a
    rotation; here of wavelengths from ``SHORTEST_WAVE`` to ``LONGEST_WAVE`` tokens.
    """
    body: Any = model.base_model
    table = getattr(getattr(body, "embeddings", None), "position_embeddings", None)
    layers: Any = getattr(getattr(body, "encoder", None), "layer", None)
    first = getattr(getattr(layers[0] if layers else None, "attention", None), "self", None)
    if table is None or first is None or head_size(model) % 2:
        raise ValueError(f"encoder.heads=neighbours: a {model.config.model_type} has no such positions or heads.")
    size = head_size(model)
    deviation = model.config.initializer_range
    lengths = torch.logspace(math.log10(SHORTEST_WAVE), math.log10(LONGEST_WAVE), size // 2, dtype=torch.float64)
    steps = 2 * math.pi / lengths  # radians per token
    angles = torch.arange(table.weight.shape[0])[:, None] * steps
    with torch.no_grad():
        for embedding in body.embeddings.children():
            if isinstance(embedding, nn.Embedding):
                embedding.weight[:, -size:] = 0.0
        table.weight[:, :-size] = 0.0
        table.weight[:, -size:] = torch.cat([angles.sin(), angles.cos()], dim=1) * 2**0.5 * deviation
        layers[0].attention.output.dense.weight[-size:] = 0.0  # attention output must not overwrite the positions
        identity = torch.eye(size // 2, dtype=torch.float64)
        for head in range(first.num_attention_heads):
            shift = (head // 2 + 1) * (1 if head % 2 else -1)
            cosine, sine = torch.diag((shift * steps).cos()), torch.diag((shift * steps).sin())
            rows = slice(head * size, (head + 1) * size)
            for projection, values in (
                (first.query, torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])),
                (first.key, torch.block_diag(identity, identity)),
            ):
                projection.weight[rows] = 0.0
                projection.weight[rows, -size:] = (SHARPNESS**0.5 * values).to(projection.weight.dtype)


def head_size(model: PreTrainedModel) -> int:
    """Returns the dimensions of one attention head."""
    return int(model.config.hidden_size // model.config.num_attention_heads)


def begin_with_words(model: Any, vectors: np.ndarray, special_ids: Iterable[int]) -> None:
    """Sets the word embeddings of an untrained ``model`` to ``vectors``, of shape (V, D) and standard deviation 1.

    They are scaled to the initialiser's standard deviation; special tokens and dimensions beyond D keep their
    random values.
    """
    table = model.get_input_embeddings().weight
    ordinary = np.setdiff1d(np.arange(len(vectors)), list(special_ids))
    with torch.no_grad():
        table[ordinary, : vectors.shape[1]] = torch.from_numpy(vectors[ordinary]) * model.config.initializer_range
