"""Sentence vectors, computed once per distinct sentence and cached on disk under the encoder's fingerprint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from filelock import FileLock

from data.errors import UserError
from data.files import atomic_write
from data.sources.reading import lines

CHUNK = 4096  # sentences embedded and written at once; a kill loses two such chunks at most
GPU_CHUNK = 1 << 15  # the same for an encoder on a GPU
HASH = np.dtype("S16")
FLOAT = np.dtype("<f4")
HASHES, ROWS = "hashes.bin", "vectors.bin"
Progress = Callable[[float], None]  # called with the share done, 0 .. 1


class Encodes(Protocol):
    """Encodes sentences, as encoders of this suite and of sentence-transformers do."""

    def encode(self, sentences: list[str], /) -> Any:
        """Returns an array of shape (n, D)."""


class Embedder(Protocol):
    """Encoder of sentences: ``Encoder``, or anything with these two members."""

    dimension: int

    def encode(self, sentences: Sequence[str]) -> np.ndarray: ...


class Vectors:
    """Vectors of m distinct sentences.

    Args:
        matrix: float32 of shape (N, D), N >= m; memory-mapped if cached on disk.
        places: row of each sentence.
    """

    def __init__(self, matrix: np.ndarray, places: dict[str, int]) -> None:
        self.matrix = matrix
        self._places = places

    def index(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns the rows of ``matrix`` with the vectors of ``sentences``, int64 of shape (n,).

        Raises:
            KeyError: if one of them was not embedded.
        """
        return np.fromiter(map(self._places.__getitem__, sentences), dtype=np.int64, count=len(sentences))

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns the vectors of ``sentences``, float32 of shape (n, D), in memory."""
        return np.asarray(self.matrix[self.index(sentences)])


def embed(
    encoder: Embedder,
    sentences: Sequence[str],
    *,
    cache: Path | None,
    key: str,
    progress: Progress | None = None,
) -> Vectors:
    """Embeds ``sentences``, in any order and with repetitions; only vectors missing in the cache are computed.

    Longest sentences come first. Vectors are written chunk by chunk, so that a killed process can resume. A second
    process that needs vectors of the same key waits for the first.

    Args:
        encoder: encoder of the sentences.
        sentences: sentences to embed.
        cache: folder of cached vectors, with one folder per key; None keeps them only in memory.
        key: identifies everything that the vectors depend on (``encoders.fingerprint`` and the preprocessing);
            must be usable as the name of a folder.
        progress: called with the share of the missing text that is done, 0 to 1.

    Raises:
        UserError: if a vector is not finite, or the cache cannot be used.
    """
    distinct = list(dict.fromkeys(sentences))
    if cache is None:
        matrix = np.empty((len(distinct), encoder.dimension), dtype=np.float32)
        for places, vectors in _computed(encoder, distinct, progress):
            matrix[places] = vectors
        return Vectors(matrix, {sentence: place for place, sentence in enumerate(distinct)})
    folder = cache / key
    wanted = _hashes(distinct)
    folder.mkdir(parents=True, exist_ok=True)
    rows = _places(_kept(folder, encoder.dimension), wanted)
    if (rows < 0).any():
        with FileLock(folder / "lock"):
            kept = _kept(folder, encoder.dimension)
            rows = _places(kept, wanted)
            if len(missing := np.flatnonzero(rows < 0)):  # none if another process was first
                computed = _computed(encoder, [distinct[i] for i in missing], progress)
                order = _write(folder, len(kept), wanted[missing], computed)
                rows[missing[order]] = np.arange(len(kept), len(kept) + len(missing))
    count = len(_kept(folder, encoder.dimension))
    shape = (count, encoder.dimension)
    matrix = np.memmap(folder / ROWS, FLOAT, "r", shape=shape) if count else np.empty(shape, FLOAT)
    return Vectors(matrix, dict(zip(distinct, rows.tolist(), strict=True)))


def embed_file(encoder: Embedder, text: Path, out: Path, progress: Progress | None = None) -> None:
    """Embeds a text file, one sentence per line, into ``out`` (.npy, float32 of shape (lines, D)).

    Memory use is constant. A blank line is embedded as ".", as in SentEval. ``out`` only appears when complete.

    Raises:
        UserError: if the file cannot be read, is empty or not UTF-8, or a vector is not finite.
    """
    total = sum(1 for _ in _lines(text))
    if total == 0:
        raise UserError("empty", key=str(text))
    sentences = _lines(text)
    done = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out, "wb") as file:
        header = {"descr": FLOAT.str, "fortran_order": False, "shape": (total, encoder.dimension)}
        np.lib.format.write_array_header_1_0(file, header)
        while chunk := list(islice(sentences, CHUNK)):
            vectors = encoder.encode(chunk)
            if (bad := _not_finite(vectors)) is not None:
                raise UserError("no finite vector", key=f"{text}:{done + bad + 1}")
            file.write(vectors.astype(FLOAT, copy=False).tobytes())
            done += len(chunk)
            if progress is not None:
                progress(done / total)


def _computed(
    encoder: Embedder, sentences: list[str], progress: Progress | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the positions of a chunk of ``sentences``, longest first, and its vectors."""
    chunk = GPU_CHUNK if _on_gpu(encoder) else CHUNK
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    order = np.argsort(-lengths, kind="stable")
    done, total = 0, int(lengths.sum()) or 1
    for start in range(0, len(order), chunk):
        places = order[start : start + chunk]
        vectors = encoder.encode([sentences[i] for i in places])
        if (bad := _not_finite(vectors)) is not None:
            raise UserError(f"no finite vector for {sentences[places[bad]][:80]!r}")
        yield places, vectors
        done += int(lengths[places].sum())
        if progress is not None:
            progress(done / total)


def _on_gpu(encoder: Embedder) -> bool:
    parameters = getattr(encoder, "parameters", None)  # others than modules have none
    return parameters is not None and any(one.is_cuda for one in parameters())


def _not_finite(vectors: np.ndarray) -> int | None:
    """Returns the first row with a value that is not finite; None if there is none."""
    finite = np.isfinite(vectors).all(axis=1)
    return None if finite.all() else int(np.argmin(finite))


def _lines(text: Path) -> Iterator[str]:
    for _, line in lines(text):
        sentence = line.rstrip("\r\n")
        yield sentence if sentence.strip() else "."


# The cache: a hash and a row per sentence, in two append-only files. A row is written before its hash, so the
# number of complete hashes is the number of valid rows, even after a killed process.


def _hashes(sentences: Sequence[str]) -> np.ndarray:
    digests = (blake2b(each.encode("utf-8", "surrogatepass"), digest_size=16).digest() for each in sentences)
    return np.frombuffer(b"".join(digests), dtype=HASH)


def _kept(folder: Path, dimension: int) -> np.ndarray:
    """Reads the hashes of the cached sentences, in the order of their rows.

    Raises:
        UserError: if rows are missing.
    """
    if not (folder / HASHES).exists():
        return np.empty(0, dtype=HASH)
    content = (folder / HASHES).read_bytes()
    count = len(content) // HASH.itemsize
    if count and (folder / ROWS).stat().st_size < count * dimension * FLOAT.itemsize:
        raise UserError("the cached vectors are cut short: remove the folder", key=str(folder))
    return np.frombuffer(content[: count * HASH.itemsize], dtype=HASH)


def _places(kept: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the position of each of ``wanted`` in ``kept``, int64 of shape (n,); -1 if missing."""
    if not len(kept):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(kept, kind="stable")
    candidates = order[np.searchsorted(kept, wanted, sorter=order).clip(max=len(kept) - 1)]
    return np.where(kept[candidates] == wanted, candidates, -1)


def _write(
    folder: Path, count: int, hashes: np.ndarray, computed: Iterable[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Appends ``hashes`` and ``computed`` vectors to the ``count`` that are there, while the next are computed.

    Returns:
        The positions of ``hashes`` in the order of the rows written, of shape (n,).
    """
    order = []
    with ThreadPoolExecutor(1) as writer:
        written: Future[None] | None = None
        for places, vectors in computed:
            if written is not None:
                written.result()
            # A copy, as a user's function may fill the same array again.
            written = writer.submit(_append, folder, count, hashes[places], np.array(vectors, FLOAT))
            count += len(places)
            order.append(places)
        if written is not None:
            written.result()
    return np.concatenate(order)


def _append(folder: Path, count: int, hashes: np.ndarray, vectors: np.ndarray) -> None:
    for name, content in ((ROWS, vectors), (HASHES, hashes)):
        with (folder / name).open("ab") as file:
            file.truncate(count * content.nbytes // len(content))  # removes what a killed process left
            file.write(content.data)
            file.flush()
            os.fsync(file.fileno())
