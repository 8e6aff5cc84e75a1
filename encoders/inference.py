"""Encodes sentences: tokenised in bulk, sorted by length, in batches of a limited number of padded tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from data.batch import Tokens
from data.display import bar
from data.errors import UserError, reading
from data.grouping import length_chunks
from data.token_format import TokenFormat
from encoders.kernels import Precision, autocast, float32_products

CHUNK = 16_384  # sentences tokenised at a time: enough for the Rust threads, little memory
PIECE = 4096  # sentences tokenised while a GPU computes those before them; on a CPU all are sorted together
CPU_TOKENS = 1024  # of a batch on a CPU: larger ones overflow its cache; 1024 to 2048 were fastest
GPU_TOKENS = 32_768  # of a batch on a GPU: smaller ones are computed faster than the host can start them
MOST_AT_ONCE = 8  # batches on a CPU: more would wait for Python's interpreter lock


class Rows(NamedTuple):
    """The b sentences of a batch: their places among all, of shape (b,), and their content tokens.

    ``ids`` is one row of many sentences' tokens; ``starts`` and ``lengths``, of shape (b,), delimit theirs.
    """

    places: np.ndarray
    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def encode(
    sentences: list[str],
    embed: Callable[[Tokens], Tensor],
    tokenizer: Any,
    format: TokenFormat,
    *,
    dimension: int,
    device: torch.device,
    precision: Precision = "fp32",
    concurrent: bool = True,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    progress: bool = False,
    origin: str = "",
) -> np.ndarray:
    """Encodes n sentences; those without any token, special ones included, get zeros.

    Sentences of similar length share a batch. On a CPU several batches run at once, each in a thread of its own:
    threads that split a small matrix product wait for each other at every layer (encoding took three times as long
    on two cores, and longer beside other programs). On a GPU one thread starts a batch while another waits for the
    vectors of the one before. Meanwhile the next piece of the sentences is tokenised.

    Args:
        sentences: texts.
        embed: computes sentence vectors of shape (b, D) for tokens of shape (b, T) on ``device``.
        tokenizer: a fast tokenizer; its own truncation and padding are neither used nor changed.
        format: special tokens and longest input.
        dimension: D.
        device: device of the weights.
        precision: precision of matrix products.
        concurrent: whether ``embed`` may run in several threads.
        batch_size, batch_tokens, progress: see ``SentenceEncoder.encode``.
        origin: name of the weights in errors.

    Returns:
        Vectors of shape (n, D), float32, in the order of ``sentences``.

    Raises:
        UserError: if the tokenizer cannot encode a sentence, or a vector is not finite.
    """
    on_cpu = device.type == "cpu"
    most_tokens = min(batch_tokens or CPU_TOKENS, CPU_TOKENS) if on_cpu else batch_tokens or GPU_TOKENS
    size = max(1, len(sentences)) if on_cpu else PIECE
    workers = min(torch.get_num_threads(), MOST_AT_ONCE) if on_cpu else 2
    vectors = np.zeros((len(sentences), dimension), dtype=np.float32)
    special = len(format.prefix) + len(format.suffix)

    def batches() -> Iterator[Rows]:
        for first in range(0, len(sentences), size):
            with reading("text for this tokenizer", origin):
                ids, counts = _tokenize(tokenizer, sentences[first : first + size])
            lengths, starts = np.minimum(counts, format.max_content), np.cumsum(counts) - counts
            starts += (counts - lengths) * (tokenizer.truncation_side == "left")
            full = np.flatnonzero(lengths + special)
            for chunk in length_chunks(lengths[full] + special, most_tokens):
                most = batch_size or len(chunk)
                for begin in range(0, len(chunk), most):
                    rows = full[chunk[begin : begin + most]]
                    yield Rows(first + rows, ids, starts[rows], lengths[rows])

    @torch.inference_mode()
    def run(rows: Rows) -> int:
        with autocast(precision, device):
            vectors[rows.places] = embed(pad(rows, format).to(device)).float().cpu().numpy()
        return len(rows.places)

    count, show = 0, bar("encoding") if progress else nullcontext()
    with float32_products(precision), show as update:
        for done in _at_once(run, batches(), workers if concurrent else 1):
            count += done
            if update:
                update(count / len(sentences))
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        text = f"{(~finite).sum()} of {len(vectors)} vectors are not finite, the first of"
        raise UserError(f"{text} {sentences[int(finite.argmin())]!r:.80}", key=origin)
    return vectors


def pad(rows: Rows, format: TokenFormat) -> Tokens:
    """Returns the tokens of a batch with the special ones, padded on the right."""
    lengths = len(format.prefix) + rows.lengths + len(format.suffix)
    columns = np.arange(int(lengths.max()))
    places = columns - len(format.prefix)
    content = (places >= 0) & (places < rows.lengths[:, None])  # (b, T)
    ids = np.full(content.shape, format.pad_id, dtype=np.int64)
    ids[:, : len(format.prefix)] = format.prefix
    ids[content] = rows.ids[(rows.starts[:, None] + places)[content]]
    for place, token in enumerate(format.suffix, -len(format.suffix)):
        ids[np.arange(len(ids)), lengths + place] = token
    return Tokens(*map(torch.from_numpy, (ids, columns < lengths[:, None], lengths)))


def _at_once(run: Callable[[Rows], int], batches: Iterator[Rows], workers: int) -> Iterator[int]:
    """Runs ``batches`` in ``workers`` threads, which share torch's threads; yields their sizes in order."""
    if workers == 1:
        yield from map(run, batches)
        return
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, "", torch.set_num_threads, (max(1, threads // workers),)) as pool:
            yield from pool.map(run, batches)
    finally:
        torch.set_num_threads(threads)  # the pool's threads changed it for later ones


def _tokenize(tokenizer: Any, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the content tokens of all sentences in one row, and the number of each."""
    backend = tokenizer.backend_tokenizer
    if backend.truncation or backend.padding:  # by a call of the tokenizer itself
        backend = Tokenizer.from_str(backend.to_str())
        backend.no_truncation()
        backend.no_padding()
    ids, counts = [np.empty(0, np.int32)], list[int]()
    for start in range(0, len(sentences), CHUNK):
        encodings = backend.encode_batch_fast([*sentences[start : start + CHUNK]], add_special_tokens=False)
        counts += map(len, encodings)
        ids += [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
    return np.concatenate(ids), np.array(counts, dtype=np.int64)
