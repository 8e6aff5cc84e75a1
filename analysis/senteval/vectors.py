"""Sentence vectors: an encoder's output checked, each distinct sentence embedded once, kept in memory or on disk.

A store is a folder with ``vectors.npy``, float32 of shape (N, D), and ``index.jsonl``, which has for each row in
use a line with the sentence and the seconds of embedding it. Lines follow their rows, so that whatever a killed
process left unfinished is embedded again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from data.errors import UserError, reading, reason
from data.files import atomic_write

BATCH = 128  # sentences of a call of a function, as in the toolkit
CHUNK = 4096  # sentences of a call of this suite's encoders, which make batches by themselves
TOLERANCE = 1e-3  # difference of equal vectors, relative to their largest number
EMPTY = np.empty((0, 0), np.float32)
ROWS, INDEX = "vectors.npy", "index.jsonl"
Progress = Callable[[float], object]  # called with the share done, 0 .. 1


class CheckedEncoder:
    """An encoder whose vectors are checked and converted.

    Args:
        encode: function of a list of n sentences, or an object with such a method ``encode``. It returns an array,
            tensor or list of shape (n, D).
        batch_size: most sentences of a call.

    Attributes:
        dimension: D; 0 before the first call.
    """

    def __init__(self, encode: Any, batch_size: int = BATCH) -> None:
        self._encode = getattr(encode, "encode", encode)
        self.batch_size, self.dimension = batch_size, 0

    def encode(self, sentences: list[str]) -> np.ndarray:
        """Returns new float32 vectors of shape (n, D).

        Raises:
            UserError: if the encoder returns anything else, or a vector is not finite.
        """
        output, count = self._encode(sentences), len(sentences)
        with reading(f"dense array of numbers of shape ({count}, {self.dimension or 'D'})", "encode"):
            values = output
            if isinstance(output, list | tuple) and isinstance(output[0], torch.Tensor):
                values = torch.stack([*output])
            if isinstance(values, torch.Tensor):
                values = values.detach().float().cpu()
            array = np.asarray(values)
            is_numeric = array.size and (array.dtype.kind in "fiu" or array.dtype.name == "bfloat16")
            if not is_numeric or array.shape != (count, self.dimension or array.size // count):
                raise ValueError(f"{type(output).__name__} of {array.dtype}, shape {array.shape}")
            vectors = array.astype(np.float32)
            if not (finite := np.isfinite(vectors).all(axis=1)).all():
                raise ValueError(f"not finite for {sentences[finite.argmin()]!r:.80}")
        self.dimension = vectors.shape[1]
        return vectors

    def depends_on_batch(self, sentences: Sequence[str]) -> bool:
        """Returns whether the shortest of ``sentences`` has other vectors in a batch with the longest.

        Raises:
            UserError: if two calls differ, as with dropout in training mode.
        """
        pair = [min(sentences, key=len), max(sentences, key=len)][: self.batch_size]
        first, second, single = map(self.encode, (pair, pair, pair[:1]))
        limit = TOLERANCE * np.abs(first).max()
        if np.abs(first - second).max() > limit:
            hint = "Switch off dropout: a torch module needs eval()."
            raise UserError("returns other vectors for the same sentences each time", key="encode", hint=hint)
        return bool(np.abs(first[:1] - single).max() > limit)


@dataclass(frozen=True)
class Vectors:
    """Vectors of distinct sentences.

    Attributes:
        matrix: float32 of shape (N, D); memory-mapped if it is in a store.
        places: row of each sentence.
        seconds: time of embedding each sentence, an equal share of a call.
    """

    matrix: np.ndarray
    places: Mapping[str, int]
    seconds: Mapping[str, float]

    def index(self, sentences: Iterable[str]) -> np.ndarray:
        """Returns the rows of ``matrix`` with the vectors of ``sentences``, int64 of shape (n,).

        Raises:
            KeyError: if one of them was not embedded.
        """
        return np.fromiter(map(self.places.__getitem__, sentences), dtype=np.int64)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns the vectors of ``sentences``, float32 of shape (n, D), in memory."""
        return np.asarray(self.matrix[self.index(sentences)])


def embed_tasks(
    encoder: CheckedEncoder,
    tasks: Mapping[str, Sequence[str]],
    *,
    store: Path | None = None,
    progress: Progress = lambda share: None,
) -> dict[str, Vectors]:
    """Embeds each distinct sentence of all tasks once, or once a task if vectors depend on others of a batch.

    Args:
        encoder: encoder of the sentences.
        tasks: sentences by task.
        store, progress: as in ``embed``; in the second case there is a store, and progress, for each task.

    Returns:
        Vectors by task, which do not depend on the other tasks.

    Raises:
        UserError: as ``embed`` and ``CheckedEncoder`` do.
    """
    sentences = [*chain.from_iterable(tasks.values())]
    if not encoder.depends_on_batch(sentences):
        return dict.fromkeys(tasks, embed(encoder, sentences, store=store, progress=progress))
    return {
        task: embed(encoder, texts, store=store and store / task, progress=progress)
        for task, texts in tasks.items()
    }


def embed(
    encoder: CheckedEncoder,
    sentences: Sequence[str],
    *,
    store: Path | None = None,
    progress: Progress = lambda share: None,
) -> Vectors:
    """Embeds the distinct ones of ``sentences`` that are not in the store, longest first.

    Args:
        encoder: encoder of the sentences.
        sentences: sentences, in any order and with repetitions.
        store: folder of this encoder's vectors, kept as they come; a second process waits. None: in memory only.
        progress: called with the share of the new sentences that is done.

    Raises:
        UserError: if a vector cannot be used, the store cannot be read, or its disk is full.
    """
    if store:
        store.mkdir(parents=True, exist_ok=True)
    with FileLock(store / "lock") if store else nullcontext():
        matrix, seconds = _read_store(store) if store else (EMPTY, {})
        encoder.dimension = matrix.shape[1] or encoder.dimension
        missing = [sentence for sentence in dict.fromkeys(sentences) if sentence not in seconds]
        missing.sort(key=len, reverse=True)
        for start in range(0, len(missing), encoder.batch_size):
            chunk, began, row = missing[start : start + encoder.batch_size], time.perf_counter(), len(seconds)
            vectors = encoder.encode(chunk)
            lines = dict.fromkeys(chunk, (time.perf_counter() - began) / len(chunk))
            if start == 0:
                matrix = _enlarge(matrix[:row], (row + len(missing), encoder.dimension), store)
            matrix[row : row + len(chunk)] = vectors
            seconds |= lines
            if store:
                with (store / INDEX).open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines.items())
            progress((start + len(chunk)) / len(missing))
    return Vectors(matrix, {sentence: row for row, sentence in enumerate(seconds)}, seconds)


def _read_store(folder: Path) -> tuple[np.ndarray, dict[str, float]]:
    """Returns the matrix, and the seconds of the sentences in its rows in use."""
    path = folder / INDEX
    with reading("store of vectors", folder):
        text = path.read_text() if path.exists() else ""
        if not text.endswith("\n"):  # of a killed process
            text = text[: text.rfind("\n") + 1]
            with atomic_write(path) as file:
                file.write(text)
        seconds: dict[str, float] = dict(map(json.loads, text.splitlines()))
        return np.load(folder / ROWS, mmap_mode="r", allow_pickle=False) if seconds else EMPTY, seconds


def _enlarge(rows: np.ndarray, shape: tuple[int, int], folder: Path | None) -> np.ndarray:
    """Returns a matrix of another shape that begins with ``rows``, on disk if there is a folder.

    All of its space is allocated first: where a disk is full, writing to a memory map would kill the process.

    Raises:
        UserError: if the disk is full.
    """
    if folder is None:
        return np.empty(shape, np.float32)
    path = folder / "new.npy"
    try:
        matrix = np.lib.format.open_memmap(path, "w+", "f4", shape)
        if hasattr(os, "posix_fallocate"):  # not on macOS
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), matrix.offset, matrix.nbytes)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UserError(reason(error), key=str(folder), hint="cache=null keeps vectors in memory.") from error
    if len(rows):
        matrix[: len(rows)] = rows
    return np.load(path.replace(folder / ROWS), mmap_mode="r+")
