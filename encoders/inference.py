"""Vectors of many sentences: tokenised in bulk, sorted by length, in batches bounded by padded tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Tokens
from encoders.base import Encoder

CHUNK = 16_384  # sentences tokenised at once: enough for the Rust threads, little memory
CPU_TOKENS = 1024  # of a batch on a CPU, whose cache larger ones overflow: 1024 to 2048 were fastest


@torch.inference_mode()
def encode(
    encoder: Encoder, sentences: Sequence[str], *, batch_tokens: int, normalize: bool, progress: bool
) -> np.ndarray:
    """``Encoder.encode`` for any encoder whose tokenizer and ``format`` tell all about its input.

    Raises:
        ValueError: if ``sentences`` is one string, or ``batch_tokens`` is not positive.
    """
    if isinstance(sentences, str):
        raise ValueError("encode takes a list of sentences. Got one string instead.")
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1. Got {batch_tokens} instead.")
    ids, lengths = _tokenize(encoder, sentences)
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable")  # longest first: a batch that is too large fails at once
    device = next(encoder.parameters()).device
    budget = min(batch_tokens, CPU_TOKENS) if device.type == "cpu" else batch_tokens
    batches = list(_batches(lengths[order], budget))
    vectors = np.empty((len(sentences), encoder.dimension), dtype=np.float32)
    training = encoder.training
    encoder.eval()
    try:
        for first, end in _track(batches, progress):
            rows = order[first:end]
            tokens = _block(ids, starts[rows], lengths[rows], encoder.format.pad_id).to(device)
            sentence = encoder(tokens).sentence.float()  # (b, D)
            vectors[rows] = (F.normalize(sentence, dim=-1) if normalize else sentence).cpu().numpy()
    finally:
        encoder.train(training)
    return vectors


def _tokenize(encoder: Encoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Input ids of all sentences in one row, special tokens included, and the length of each."""
    backend = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.enable_truncation(encoder.format.max_length)
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        encodings = backend.encode_batch_fast(list(sentences[start : start + CHUNK]))
        lengths.extend(len(encoding) for encoding in encodings)
        ids.append(np.concatenate([np.array(encoding.ids, dtype=np.int32) for encoding in encodings]))
    return (np.concatenate(ids) if ids else np.empty(0, np.int32)), np.array(lengths, dtype=np.int64)


def _batches(lengths: np.ndarray, budget: int) -> Iterator[tuple[int, int]]:
    """Cuts descending ``lengths`` into ranges whose padded tokens stay within ``budget`` (or hold one row)."""
    first = 0
    while first < len(lengths):
        end = min(len(lengths), first + max(1, budget // max(1, int(lengths[first]))))
        yield first, end
        first = end


def _block(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray, pad_id: int) -> Tokens:
    width = int(lengths.max())
    columns = np.arange(width)
    mask = columns < lengths[:, None]  # (b, width)
    taken = ids[np.where(mask, starts[:, None] + columns, 0)]
    block: Tensor = torch.from_numpy(np.where(mask, taken, pad_id).astype(np.int64))
    return Tokens(block, torch.from_numpy(mask), torch.from_numpy(lengths))


def _track(batches: list[tuple[int, int]], progress: bool) -> Iterator[tuple[int, int]]:
    if not progress:
        yield from batches
        return
    from rich.progress import track

    yield from track(batches, description="encoding")
