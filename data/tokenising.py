"""Streams of text chunks through a tokenizer, in order and in constant memory, by several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

CHUNK_CHARACTERS = 1 << 20
SMALL_CHUNKS = 32  # a corpus of so few chunks is done before processes have started
MOST_PROCESSES = 16  # more are not fed fast enough by the one that reads


@dataclass
class Chunk:
    """Some consecutive documents: normalised texts, what the index says of them, and how many were empty."""

    texts: list[str] = field(default_factory=list)
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    empty: int = 0


@dataclass(frozen=True)
class Tokenise:
    """Texts to ids; picklable, and without the weight of transformers.

    Attributes:
        tokenizer: JSON of a Rust tokenizer.
        blank: whether a text gets a leading blank.
        dtype: of the ids.
    """

    tokenizer: str
    blank: bool
    dtype: np.dtype

    def open(self) -> Tokenizer:
        backend = Tokenizer.from_str(self.tokenizer)
        backend.encode_special_tokens = True  # "<s>" in a text is text; not part of the JSON
        return backend

    def __call__(self, backend: Tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all ``texts`` in one row, and the length of each, of shape (n,), int64."""
        inputs = [f" {text}" for text in texts] if self.blank else texts
        rows = [encoding.ids for encoding in backend.encode_batch_fast(inputs, add_special_tokens=False)]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return np.fromiter(chain.from_iterable(rows), dtype=self.dtype, count=int(lengths.sum())), lengths


Tokenised = tuple[Chunk, np.ndarray, np.ndarray]  # with ids and lengths


def tokenised(chunks: Iterable[Chunk], tokenise: Tokenise, workers: int | None) -> Iterator[Tokenised]:
    """Each of ``chunks`` with its ids and lengths, in order.

    ``workers`` processes tokenise; 0: this process, with the tokenizer's own threads; None: as many processes
    as there are cores, or 0 if the corpus is small.
    """
    stream = iter(chunks)
    if workers is None:
        head = [chunk for _, chunk in zip(range(SMALL_CHUNKS), stream, strict=False)]
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = min(cores, MOST_PROCESSES) if len(head) == SMALL_CHUNKS and cores > 1 else 0
        stream = chain(head, stream)
    if workers:
        yield from _in_processes(stream, tokenise, workers)
    else:
        backend = tokenise.open()
        for chunk in stream:
            yield chunk, *tokenise(backend, chunk.texts)


def _in_processes(chunks: Iterator[Chunk], tokenise: Tokenise, workers: int) -> Iterator[Tokenised]:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(tokenise,))
    waiting: deque[tuple[Chunk, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(_work, chunk.texts)))
            if len(waiting) > 2 * workers:  # bounds the memory
                done, future = waiting.popleft()
                yield done, *future.result()
        for done, future in waiting:
            yield done, *future.result()
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[Tokenise, Tokenizer]


def _start(tokenise: Tokenise) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that reads, which ends us
    _worker = tokenise, tokenise.open()


def _work(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    tokenise, backend = _worker
    return tokenise(backend, texts)
