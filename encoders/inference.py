"""Encodes sentences: tokenised in bulk, sorted by length, in batches of a limited number of padded tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Tokens
from data.errors import UserError, is_failure, reason
from data.grouping import length_chunks
from encoders.kernels import autocast, float32_products

if TYPE_CHECKING:
    from encoders.base import Encoder

Result = TypeVar("Result")
CHUNK = 16_384  # sentences tokenised at a time: enough for the Rust threads, little memory
CPU_TOKENS = 1024  # of a batch on a CPU: larger ones overflow its cache; 1024 to 2048 were fastest
MOST_AT_ONCE = 8  # batches on a CPU: more would wait for Python's interpreter lock


class SentenceEncoder(ABC):
    """Turns sentences into vectors; arguments have the names that sentence-transformers gives them."""

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_size: int | None = None,
        batch_tokens: int = 8192,
        show_progress_bar: bool | None = False,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """Encodes sentences; a sentence has the same vector alone and in any batch.

        Args:
            sentences: n sentences, or one.
            batch_size: most sentences of a forward pass; None: only ``batch_tokens`` limits it.
            batch_tokens: most tokens of a forward pass, padding included.
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
        self, sentences: list[str], batch_size: int | None, batch_tokens: int, progress: bool
    ) -> np.ndarray:
        """Encodes n sentences into float32 vectors of shape (n, D)."""

    def similarity(self, first: Any, second: Any) -> Tensor:
        """Returns the cosines of n vectors with m others, of shape (n, m); each argument may be one vector."""
        one, other = (
            F.normalize(torch.atleast_2d(torch.as_tensor(vectors)), dim=1) for vectors in (first, second)
        )
        return one @ other.T


def encode(
    encoder: Encoder, sentences: list[str], batch_size: int | None, batch_tokens: int, progress: bool
) -> np.ndarray:
    """Encodes ``sentences`` with an encoder whose input is fully described by its tokenizer and ``format``.

    Sentences of similar length share a batch. On a CPU several batches run at once, each in a thread of its own:
    splitting small matrix products over threads gains little, as the threads wait for each other at every layer.

    Returns:
        Vectors of shape (n, D), float32, in the order of ``sentences``.

    Raises:
        UserError: if the tokenizer cannot encode a sentence, or a vector is not finite.
    """
    ids, lengths = _tokenize(encoder, sentences)
    starts = np.cumsum(lengths) - lengths
    device = next(encoder.parameters()).device
    on_cpu = device.type == "cpu"
    chunks = length_chunks(lengths, min(batch_tokens, CPU_TOKENS) if on_cpu else batch_tokens)
    most = batch_size or max(1, len(sentences))
    batches = [chunk[first : first + most] for chunk in chunks for first in range(0, len(chunk), most)]
    vectors = np.empty((len(sentences), encoder.dimension), dtype=np.float32)

    @torch.inference_mode()
    def run(rows: np.ndarray) -> tuple[np.ndarray, _OnHost]:
        tokens = _block(ids, starts[rows], lengths[rows], encoder.format.pad_id).to(device)
        with autocast(encoder.precision, device):
            sentence = encoder(tokens).sentence.float()  # (b, D)
        return rows, _OnHost(sentence)

    training, threads = encoder.training, torch.get_num_threads()
    encoder.eval()
    try:
        with float32_products(encoder.precision):
            done = _at_once(run, batches, min(threads, MOST_AT_ONCE) if on_cpu else 1)
            for rows, copy in _track(done if on_cpu else _one_late(done), len(batches), progress):
                vectors[rows] = copy.numpy()
    finally:
        encoder.train(training)
        torch.set_num_threads(threads)  # the pool's threads changed it for later ones
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        first = int(finite.argmin())
        raise UserError(
            f"{len(vectors) - finite.sum()} of {len(vectors)} vectors are not finite, the first that of "
            f"{sentences[first]!r:.80}: the encoder is damaged, or its training diverged."
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
    """Yields each of ``results`` after the next one is computed, so that a GPU works while a result is copied."""
    waiting: list[Result] = []
    for result in results:
        waiting.append(result)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def _at_once(run: Callable[[np.ndarray], Result], batches: list[np.ndarray], workers: int) -> Iterator[Result]:
    """Runs ``batches`` in ``workers`` threads, which share torch's threads; yields results in order."""
    if workers == 1 or len(batches) == 1:
        yield from map(run, batches)
        return
    share = torch.get_num_threads() // workers
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool:
        yield from pool.map(run, batches)


def _tokenize(encoder: Encoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the input ids of all sentences in one row, with special tokens, and the length of each."""
    backend = encoder.tokenizer.backend_tokenizer
    backend.no_padding()
    backend.enable_truncation(encoder.format.max_length, direction=encoder.tokenizer.truncation_side)
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(sentences), CHUNK):
        try:
            encodings = backend.encode_batch_fast(list(sentences[start : start + CHUNK]))
        except BaseException as error:  # tokenizers raises no class of its own
            if not is_failure(error):
                raise
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
