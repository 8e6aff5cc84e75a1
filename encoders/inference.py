"""Encodes sentences: tokenised in bulk, sorted by length, in batches of a limited number of padded tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Tokens
from data.display import bar
from data.errors import UserError, reading
from data.grouping import length_chunks
from encoders.kernels import autocast, float32_products

if TYPE_CHECKING:
    from encoders.base import Encoder

Result = TypeVar("Result")
CHUNK = 16_384  # sentences tokenised at a time: enough for the Rust threads, little memory
PIECE = 4096  # sentences tokenised while a GPU computes those before them
CPU_TOKENS = 1024  # of a batch on a CPU: larger ones overflow its cache; 1024 to 2048 were fastest
GPU_TOKENS = 32_768  # of a batch on a GPU: smaller ones are computed faster than the host can start them
MOST_AT_ONCE = 8  # batches on a CPU: more would wait for Python's interpreter lock


class SentenceEncoder(ABC):
    """Turns sentences into vectors; arguments have the names that sentence-transformers gives them."""

    def fingerprint(self) -> str:
        """Returns a text that differs between encoders with different vectors (``encoders.fingerprint``)."""
        from encoders.fingerprint import fingerprint  # it imports this module

        return fingerprint(self)

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = False,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """Encodes sentences; a sentence has the same vector alone and in any batch.

        Args:
            sentences: n sentences, or one.
            batch_size: most sentences of a forward pass; None: only ``batch_tokens`` limits it.
            batch_tokens: most tokens of a forward pass, padding included; None: 1,024 on a CPU and 32,768 on a
                GPU. On a CPU never more than 1,024.
            show_progress_bar: whether a bar shows the progress.
            convert_to_tensor: whether to return a tensor, on the CPU, instead of an array.
            normalize_embeddings: whether vectors are scaled to length 1.

        Returns:
            Vectors of shape (n, D) in the order given, or of shape (D,) for one sentence; float32.

        Raises:
            ValueError: if ``sentences`` holds anything but strings, or a limit of a batch is below 1.
            UserError: if the tokenizer cannot encode a sentence, or a vector is not finite.
        """
        several = isinstance(sentences, Iterable) and not isinstance(sentences, str)
        listed: list[Any] = list(sentences) if several else [sentences]
        if others := [one for one in listed if not isinstance(one, str)]:
            raise ValueError(f"encode takes a sentence or a list of them. Got {others[0]!r} among them.")
        for name, value in (("batch_size", batch_size), ("batch_tokens", batch_tokens)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1. Got {value} instead.")
        vectors = torch.from_numpy(self._encode(listed, batch_size, batch_tokens, bool(show_progress_bar)))
        vectors = F.normalize(vectors, dim=1) if normalize_embeddings else vectors
        vectors = vectors[0] if isinstance(sentences, str) else vectors
        return vectors if convert_to_tensor else vectors.numpy()

    @abstractmethod
    def _encode(
        self, sentences: list[str], batch_size: int | None, batch_tokens: int | None, progress: bool
    ) -> np.ndarray:
        """Encodes n sentences into float32 vectors of shape (n, D)."""

    def similarity(self, first: Any, second: Any) -> Tensor:
        """Returns the cosines of n vectors with m others, of shape (n, m); each argument may be one vector."""
        one, other = (
            F.normalize(torch.atleast_2d(torch.as_tensor(vectors)), dim=1) for vectors in (first, second)
        )
        return one @ other.T


def encode(
    encoder: Encoder, sentences: list[str], batch_size: int | None, batch_tokens: int | None, progress: bool
) -> np.ndarray:
    """Encodes ``sentences`` with an encoder whose input is fully described by its tokenizer and ``format``.

    Sentences of similar length share a batch. On a CPU several batches run at once, each in a thread of its own:
    splitting small matrix products over threads gains little, as the threads wait for each other at every layer.
    For a GPU a piece of the sentences is tokenised while those before it are computed.

    Returns:
        Vectors of shape (n, D), float32, in the order of ``sentences``.

    Raises:
        UserError: if the tokenizer cannot encode a sentence, or a vector is not finite.
    """
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    if on_cpu:
        batch_tokens = min(batch_tokens or CPU_TOKENS, CPU_TOKENS)
    vectors = np.empty((len(sentences), encoder.dimension), dtype=np.float32)

    def batches() -> Iterator[_Rows]:
        size = max(1, len(sentences)) if on_cpu else PIECE
        for first, (ids, lengths) in _ahead(partial(_tokenize, encoder), sentences, size):
            starts = np.cumsum(lengths) - lengths
            for chunk in length_chunks(lengths, batch_tokens or GPU_TOKENS):
                most = batch_size or len(chunk)
                for begin in range(0, len(chunk), most):
                    rows = chunk[begin : begin + most]
                    yield _Rows(first + rows, ids, starts[rows], lengths[rows])

    @torch.inference_mode()
    def run(rows: _Rows) -> tuple[np.ndarray, _OnHost]:
        tokens = _block(rows, encoder.format.pad_id).to(device)
        with autocast(encoder.precision, device):
            sentence = encoder(tokens).sentence.float()  # (b, D)
        return rows.places, _OnHost(sentence)

    training, threads = encoder.training, torch.get_num_threads()
    encoder.eval()
    try:
        # This thread's autocast spans all batches, so that the weights are converted once.
        with float32_products(encoder.precision), autocast(encoder.precision, device):
            done = _at_once(run, batches(), min(threads, MOST_AT_ONCE) if on_cpu else 1)
            with bar("encoding") if progress else nullcontext() as show:
                count = 0
                for places, copy in done if on_cpu else _one_late(done):
                    vectors[places] = copy.numpy()
                    count += len(places)
                    if show:
                        show(count / len(sentences))
    finally:
        encoder.train(training)
        torch.set_num_threads(threads)  # the pool's threads changed it for later ones
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        first = int(finite.argmin())
        raise UserError(
            f"{len(vectors) - finite.sum()} of {len(vectors)} vectors are not finite, the first that of "
            f"{sentences[first]!r:.80}",
            key=encoder.origin,
        )
    return vectors


class _OnHost:
    """A copy of a tensor on the host; only ``numpy`` waits for a GPU."""

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.to("cpu", non_blocking=tensor.is_cuda)
        self._done = torch.cuda.Event() if tensor.is_cuda else None
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(tensor.device))

    def numpy(self) -> np.ndarray:
        if self._done is not None:
            self._done.synchronize()
        return self._copy.numpy()


def _one_late(results: Iterable[Result]) -> Iterator[Result]:
    """Yields each of ``results`` after the next one is begun, so that a GPU or thread works while it is used."""
    waiting: list[Result] = []
    for result in results:
        waiting.append(result)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def _at_once(run: Callable[[_Rows], Result], batches: Iterator[_Rows], workers: int) -> Iterator[Result]:
    """Runs ``batches`` in ``workers`` threads, which share torch's threads; yields results in order."""
    listed = list(batches)
    if workers == 1 or len(listed) == 1:
        yield from map(run, listed)
        return
    share = torch.get_num_threads() // workers
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool:
        yield from pool.map(run, listed)


def _ahead(
    function: Callable[[Sequence[str]], Result], sentences: Sequence[str], size: int
) -> Iterator[tuple[int, Result]]:
    """Applies ``function`` to ``size`` sentences at a time, to the next ones while the caller works on a result.

    Yields the number of the first of them, and the result.
    """
    if len(sentences) <= size:
        yield 0, function(sentences)
        return
    with ThreadPoolExecutor(1) as pool:
        pieces = (
            (first, pool.submit(function, sentences[first : first + size]))
            for first in range(0, len(sentences), size)
        )
        for first, piece in _one_late(pieces):
            yield first, piece.result()


def _tokenize(encoder: Encoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the input ids of all sentences in one row, with special tokens, and the length of each."""
    backend = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.enable_truncation(encoder.format.max_length, direction=encoder.tokenizer.truncation_side)
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        with reading("text for this tokenizer", encoder.origin):
            encodings = backend.encode_batch_fast(list(sentences[start : start + CHUNK]))
        lengths.extend(len(encoding) for encoding in encodings)
        ids.append(np.concatenate([np.array(encoding.ids, dtype=np.int32) for encoding in encodings]))
    return (np.concatenate(ids) if ids else np.empty(0, np.int32)), np.array(lengths, dtype=np.int64)


class _Rows(NamedTuple):
    """The b sentences of a batch: their places among all, of shape (b,), and their input ids.

    ``ids`` is one row of many sentences' ids; ``starts`` and ``lengths``, of shape (b,), say where theirs are.
    """

    places: np.ndarray
    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def _block(rows: _Rows, pad_id: int) -> Tokens:
    columns = np.arange(int(rows.lengths.max()))
    mask = columns < rows.lengths[:, None]  # (b, width)
    taken = rows.ids[np.where(mask, rows.starts[:, None] + columns, 0)]
    block: Tensor = torch.from_numpy(np.where(mask, taken, pad_id).astype(np.int64))
    return Tokens(block, torch.from_numpy(mask), torch.from_numpy(rows.lengths))
