"""Vectors of many sentences: tokenised in bulk, sorted by length, in batches bounded by padded tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Tokens
from data.errors import UserError, reason
from data.grouping import length_chunks
from encoders.kernels import autocast, float32_products

if TYPE_CHECKING:
    from encoders.base import Encoder

Result = TypeVar("Result")
CHUNK = 16_384  # sentences tokenised at once: enough for the Rust threads, little memory
CPU_TOKENS = 1024  # of a batch on a CPU, whose cache larger ones overflow: 1024 to 2048 were fastest
MOST_AT_ONCE = 8  # batches on a CPU: beyond it Python itself is what they wait for


def encode(
    encoder: Encoder, sentences: Iterable[str], *, batch_tokens: int, normalize: bool, progress: bool
) -> np.ndarray:
    """``Encoder.encode`` for any encoder whose tokenizer and ``format`` tell all about its input.

    On a CPU several batches run at once, each on a thread of its own: small matrix products gain little from
    being shared by threads, which wait for each other at every layer.

    Raises:
        ValueError: as ``listed`` does, or if ``batch_tokens`` is not positive.
        UserError: if a vector is not finite.
    """
    sentences = listed(sentences)
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1. Got {batch_tokens} instead.")
    ids, lengths = _tokenize(encoder, sentences)
    starts = np.cumsum(lengths) - lengths
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    batches = length_chunks(lengths, min(batch_tokens, CPU_TOKENS) if on_cpu else batch_tokens)
    vectors = np.empty((len(sentences), encoder.dimension), dtype=np.float32)

    @torch.inference_mode()
    def run(rows: np.ndarray) -> tuple[np.ndarray, _OnHost]:
        tokens = _block(ids, starts[rows], lengths[rows], encoder.format.pad_id).to(device)
        with autocast(encoder.precision, device):
            sentence = encoder(tokens).sentence.float()  # (b, D)
        return rows, _OnHost(F.normalize(sentence, dim=-1) if normalize else sentence)

    training, threads = encoder.training, torch.get_num_threads()
    encoder.eval()
    try:
        with float32_products(encoder.precision):
            done = _at_once(run, batches, min(threads, MOST_AT_ONCE) if on_cpu else 1)
            for rows, copy in _track(done if on_cpu else _one_late(done), len(batches), progress):
                vectors[rows] = copy.numpy()
    finally:
        encoder.train(training)
        torch.set_num_threads(threads)  # later threads begin with what the last one set
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        first = int(finite.argmin())
        raise UserError(
            f"{len(vectors) - finite.sum()} of {len(vectors)} vectors are not finite, the first that of "
            f"{sentences[first]!r:.80}: the encoder is damaged, or its training diverged (a smaller optimizer.lr "
            "may help)."
        )
    return vectors


class _OnHost:
    """A copy of a tensor on the host; only ``numpy`` waits for a GPU."""

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.to("cpu", non_blocking=tensor.is_cuda)
        self._done = torch.cuda.Event() if tensor.is_cuda else None
        if self._done is not None:
            self._done.record()

    def numpy(self) -> np.ndarray:
        if self._done is not None:
            self._done.synchronize()
        return self._copy.numpy()


def _one_late(results: Iterable[Result]) -> Iterator[Result]:
    """Yields each of ``results`` after the next one was made, so that a GPU has work while one is copied."""
    waiting: list[Result] = []
    for result in results:
        waiting.append(result)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def listed(sentences: Iterable[str]) -> list[str]:
    """``sentences`` numbered from 0, whatever they come in: a column of a table, a generator.

    Raises:
        ValueError: if they are one string, or there is something else among them.
    """
    if isinstance(sentences, str):
        raise ValueError("encode takes a list of sentences. Got one string instead.")
    found = list(sentences)
    if others := [one for one in found if not isinstance(one, str)]:
        raise ValueError(f"encode takes a list of sentences. Got {others[0]!r} among them.")
    return found


def _at_once(run: Callable[[np.ndarray], Result], batches: list[np.ndarray], workers: int) -> Iterator[Result]:
    """Runs ``batches``, ``workers`` at a time, which share torch's threads among them."""
    if workers == 1 or len(batches) == 1:
        yield from map(run, batches)
        return
    share = torch.get_num_threads() // workers
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool:
        yield from pool.map(run, batches)


def _tokenize(encoder: Encoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Input ids of all sentences in one row, special tokens included, and the length of each."""
    backend = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.enable_truncation(encoder.format.max_length, direction=encoder.tokenizer.truncation_side)
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        try:
            encodings = backend.encode_batch_fast(list(sentences[start : start + CHUNK]))
        except Exception as error:  # tokenizers raises nothing more special
            raise UserError(f"The encoder's tokenizer cannot encode the text: {reason(error)}.") from error
        lengths.extend(len(encoding) for encoding in encodings)
        ids.append(np.concatenate([np.array(encoding.ids, dtype=np.int32) for encoding in encodings]))
    return (np.concatenate(ids) if ids else np.empty(0, np.int32)), np.array(lengths, dtype=np.int64)


def _block(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray, pad_id: int) -> Tokens:
    width = int(lengths.max())
    columns = np.arange(width)
    mask = columns < lengths[:, None]  # (b, width)
    taken = ids[np.where(mask, starts[:, None] + columns, 0)]
    block: Tensor = torch.from_numpy(np.where(mask, taken, pad_id).astype(np.int64))
    return Tokens(block, torch.from_numpy(mask), torch.from_numpy(lengths))


def _track(done: Iterator[Result], total: int, progress: bool) -> Iterator[Result]:
    if not progress:
        yield from done
        return
    from rich.progress import track

    yield from track(done, description="encoding", total=total)
