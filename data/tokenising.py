"""Splits and tokenises a stream of text chunks in order and in constant memory, in several processes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from data.display import Clock
from data.tokenizer import is_byte_level, plain_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHUNK_CHARACTERS = 1 << 20
SMALL_CHUNKS = 32  # a corpus of fewer chunks is tokenised before processes have started
SMALL_CHUNKS_SPLIT = 8  # the same if sentences are split, which is slower
MOST_PROCESSES = 16  # one process reads the text, and cannot feed more
PARAGRAPHS = "\n"  # separates the paragraphs of a text that is to be split
# Of a sentence: number of its document, number of white-space words, hash of its text.
SENTENCE = np.dtype([("document", "<u4"), ("words", "<u4"), ("text", "<u8")])


@dataclass
class Chunk:
    """Some consecutive documents.

    Attributes:
        texts: normalised texts of those that are not empty.
        entries: split hash, order hash and code of the part of each.
        empty: number of empty documents between them.
    """

    texts: list[str] = field(default_factory=list)
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    empty: int = 0


class Rows(NamedTuple):
    """The n units of a chunk.

    Attributes:
        ids: token ids of all units in one row, of shape (sum of lengths,).
        lengths: tokens of each unit, of shape (n,), int64.
        sentences: entries of dtype ``SENTENCE``, of shape (n,), with numbers of documents in the chunk; None where
            a unit is a document.
    """

    ids: np.ndarray
    lengths: np.ndarray
    sentences: np.ndarray | None


@dataclass(frozen=True)
class Tokenise:
    """Converts texts to ids; picklable, and independent of transformers.

    Attributes:
        tokenizer: JSON of a Rust tokenizer.
        blank: whether a unit gets a leading blank.
        dtype: of the ids.
        lowercase: whether units are lower-cased, after splitting.
        sentences: whether a unit is a sentence.
        split: splits a paragraph into sentences; None: each text is one unit.
    """

    tokenizer: str
    blank: bool
    dtype: np.dtype
    lowercase: bool = False
    sentences: bool = False
    split: Callable[[str], list[str]] | None = None

    def open(self) -> Tokenizer:
        """Returns the Rust tokenizer, which each process opens once."""
        backend = Tokenizer.from_str(self.tokenizer)
        backend.encode_special_tokens = True  # "<s>" in a text is text; not part of the JSON
        return backend

    def __call__(self, backend: Tokenizer, texts: list[str]) -> Rows:
        """Splits ``texts`` into units and tokenises these with ``backend``, as ``open`` returns it."""
        units, owners = texts, list(range(len(texts)))
        if self.split is not None:
            paragraphs = [(i, part) for i, text in enumerate(texts) for part in text.split(PARAGRAPHS)]
            pairs = [(i, sentence) for i, paragraph in paragraphs for sentence in self.split(paragraph)]
            units, owners = [sentence for _, sentence in pairs], [i for i, _ in pairs]
        if self.lowercase:
            units = [unit.lower() for unit in units]
        inputs = [f" {unit}" for unit in units] if self.blank else units
        rows = [encoding.ids for encoding in backend.encode_batch_fast(inputs, add_special_tokens=False)]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        ids = np.fromiter(chain.from_iterable(rows), dtype=self.dtype, count=int(lengths.sum()))
        return Rows(ids, lengths, _sentence_entries(units, owners) if self.sentences else None)


def plain_tokenise(tokenizer: PreTrainedTokenizerFast) -> tuple[Tokenise, int]:
    """Returns a ``Tokenise`` that converts texts as ``tokenizer`` does, and the number of its ids."""
    backend = plain_backend(tokenizer)
    vocab_size = max(backend.get_vocab().values()) + 1
    dtype = np.dtype("<u2" if vocab_size <= 1 << 16 else "<i4")
    return Tokenise(backend.to_str(), is_byte_level(backend), dtype), vocab_size


Tokenised = tuple[Chunk, Rows]


class Rate:
    """Speed of tokenising and the time left, as text for a display.

    Args:
        documents, tokens: that an earlier process has done.
    """

    def __init__(self, documents: int = 0, tokens: int = 0) -> None:
        self._began, self._documents, self._tokens = time.monotonic(), documents, tokens
        self._clock: Clock | None = None

    def __call__(self, documents: int, tokens: int, share: float | None) -> str:
        """Returns "8,099 documents and 812,749 tokens a second, about 0:20:00 left in all".

        Args:
            documents, tokens: that are done now.
            share: of the whole text that is done, 0 to 1; None: unknown.
        """
        seconds = max(time.monotonic() - self._began, 1e-3)
        speeds = ((documents - self._documents) / seconds, (tokens - self._tokens) / seconds)
        text = "{:,.0f} documents and {:,.0f} tokens a second".format(*speeds)
        if share is None:
            return text
        if self._clock is None:
            self._clock = Clock()
            self._clock.restart(share)
        self._clock.share = share
        return ", ".join(filter(None, [text, self._clock.left()]))


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tokenised(chunks: Iterable[Chunk], tokenise: Tokenise, workers: int | None) -> Iterator[Tokenised]:
    """Yields each of ``chunks`` with its rows, in order.

    ``workers`` processes split and tokenise; 0: this process, with the tokenizer's own threads; None: as many
    processes as there are cores, or 0 if the corpus is small.
    """
    stream = iter(chunks)
    if workers is None:
        small = SMALL_CHUNKS if tokenise.split is None else SMALL_CHUNKS_SPLIT
        head = [chunk for _, chunk in zip(range(small), stream, strict=False)]
        workers = min(cores(), MOST_PROCESSES) if len(head) == small and cores() > 1 else 0
        stream = chain(head, stream)
    if workers:
        yield from _in_processes(stream, tokenise, workers)
    else:
        backend = tokenise.open()
        for chunk in stream:
            yield chunk, tokenise(backend, chunk.texts)


def _sentence_entries(units: list[str], owners: list[int]) -> np.ndarray:
    entries = np.empty(len(units), SENTENCE)
    entries["document"] = owners
    entries["words"] = [unit.count(" ") + 1 for unit in units]
    digests = (hashlib.blake2b(unit.encode(), digest_size=8, person=b"sentence").digest() for unit in units)
    entries["text"] = np.frombuffer(b"".join(digests), dtype="<u8")
    return entries


def _in_processes(chunks: Iterator[Chunk], tokenise: Tokenise, workers: int) -> Iterator[Tokenised]:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(tokenise,))
    waiting: deque[tuple[Chunk, Future[Rows]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(_work, chunk.texts)))
            if len(waiting) > 2 * workers:  # bounds the memory
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[Tokenise, Tokenizer]


def _start(tokenise: Tokenise) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that reads, which ends this one
    _worker = tokenise, tokenise.open()


def _work(texts: list[str]) -> Rows:
    tokenise, backend = _worker
    return tokenise(backend, texts)
