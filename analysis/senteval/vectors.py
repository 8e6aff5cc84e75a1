"""Sentence vectors: an encoder's output checked, each distinct sentence embedded once, kept in memory or on disk.

A store is a folder with ``vectors.npy``, float32 of shape (N, D), and ``index.jsonl``, which has for each row in
use a line with the sentence and the seconds of embedding it. Lines follow their rows, so that whatever a killed
process left unfinished is embedded again.
"""

from __future__ import annotations

import inspect
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from data.errors import UserError, reading
from data.files import atomic_write

BATCH = 128  # sentences of a call of a function, as in the toolkit
CHUNK, GPU_CHUNK = 4096, 1 << 15  # sentences of a call of an encoder that makes batches by itself
TOLERANCE = 1e-3  # difference of equal vectors, relative to their largest number
EMPTY = np.empty((0, 0), np.float32)
ROWS, INDEX = "vectors.npy", "index.jsonl"
Progress = Callable[[float], object]  # called with the share done, 0 .. 1


class CheckedEncoder:
    """An encoder whose vectors are checked and converted.

    Args:
        encode: function of a list of n sentences, or an object with such a method ``encode``. It returns an array,
            tensor or list of shape (n, D).
        batch_size: most sentences of a call. An object whose method has its own ``batch_size`` gets more.

    Attributes:
        dimension: D; 0 before the first call.
    """

    def __init__(self, encode: Any, batch_size: int = BATCH) -> None:
        self._encode = getattr(encode, "encode", encode)
        self.batch_size, self.dimension = batch_size, 0
        if self._encode is not encode and "batch_size" in inspect.signature(self._encode).parameters:
            on_gpu = any(weight.is_cuda for weight in getattr(encode, "parameters", tuple)())
            self.batch_size = GPU_CHUNK if on_gpu else CHUNK

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
        seconds: time of embedding each sentence; calls are shared in proportion to characters.
    """

    matrix: np.ndarray
    places: Mapping[str, int]
    seconds: Mapping[str, float]

    def index(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns the rows of ``matrix`` with the vectors of ``sentences``, int64 of shape (n,).

        Raises:
            KeyError: if one of them was not embedded.
        """
        return np.fromiter(map(self.places.__getitem__, sentences), dtype=np.int64, count=len(sentences))

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns the vectors of ``sentences``, float32 of shape (n, D), in memory."""
        return np.asarray(self.matrix[self.index(sentences)])


def embed_tasks(
    encoder: CheckedEncoder,
    tasks: Mapping[str, Sequence[str]],
    *,
    store: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Vectors]:
    """Embeds each distinct sentence of all tasks once, or once a task if vectors depend on others of a batch.

    Args:
        encoder: encoder of the sentences.
        tasks: sentences by task.
        store, progress: as in ``embed``.

    Returns:
        Vectors by task, which do not depend on the other tasks.

    Raises:
        UserError: as ``embed`` and ``CheckedEncoder`` do.
    """
    sentences = [*chain.from_iterable(tasks.values())]
    if not encoder.depends_on_batch(sentences):
        return dict.fromkeys(tasks, embed(encoder, sentences, store=store, progress=progress))
    vectors: dict[str, Vectors] = {}
    for task, texts in tasks.items():
        vectors[task] = embed(encoder, texts, store=store and store / task)
        if progress:
            progress(len(vectors) / len(tasks))
    return vectors


def embed(
    encoder: Any, sentences: Sequence[str], *, store: Path | None = None, progress: Progress | None = None
) -> Vectors:
    """Embeds the distinct ones of ``sentences`` that are not in the store, longest first.

    Args:
        encoder: as ``CheckedEncoder`` takes it, or one.
        sentences: sentences, in any order and with repetitions.
        store: folder of this encoder's vectors, kept as they come; a second process waits. None: in memory only.
        progress: called with the share of the text that is done.

    Raises:
        UserError: if a vector cannot be used, the store cannot be read, or the disk is too small.
    """
    encoder = encoder if isinstance(encoder, CheckedEncoder) else CheckedEncoder(encoder)
    if store:
        store.mkdir(parents=True, exist_ok=True)
    with FileLock(store / "lock") if store else nullcontext():
        matrix, seconds = _read_store(store) if store else (EMPTY, {})
        encoder.dimension = matrix.shape[1] or encoder.dimension
        missing = [sentence for sentence in dict.fromkeys(sentences) if sentence not in seconds]
        missing.sort(key=len, reverse=True)
        left = total = len("".join(missing)) + len(missing)
        for start in range(0, len(missing), encoder.batch_size):
            chunk, began, row = missing[start : start + encoder.batch_size], time.perf_counter(), len(seconds)
            vectors = encoder.encode(chunk)
            size = len("".join(chunk)) + len(chunk)
            pace = (time.perf_counter() - began) / size
            if start == 0:
                matrix = _allocate(store, row, len(missing), encoder.dimension)
            matrix[row : row + len(chunk)] = vectors
            lines = {sentence: pace * (len(sentence) + 1) for sentence in chunk}
            seconds |= lines
            if store:
                with (store / INDEX).open("a") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines.items())
            left -= size
            if progress:
                progress(1 - left / total)
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


def _allocate(folder: Path | None, old: int, new: int, dimension: int) -> np.ndarray:
    """Returns a matrix of ``old`` + ``new`` rows; on disk it keeps the old ones.

    Raises:
        UserError: if the disk is too small: writing into mapped memory would then end the process.
    """
    shape = old + new, dimension
    if folder is None:
        return np.empty(shape, np.float32)
    if (size := 4 * new * dimension) > shutil.disk_usage(folder).free:
        raise UserError(f"no space for {size / 1e9:.1f} GB of vectors", key=str(folder))
    path = folder / ROWS
    with path.open("r+b" if path.exists() else "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + 4 * shape[0] * dimension)
    return np.load(path, mmap_mode="r+")
