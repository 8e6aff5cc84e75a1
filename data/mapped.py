"""Columns of token ids on disk, and their memory-mapped index: the base of token and pair stores.

A folder has an index, with an entry for each unit (where its tokens end in each column, and its part or the hash
that decides it), and a file for each column. The index is memory-mapped. Columns are read slice by slice: pages of
a map stay in resident memory, so that batches in random order would soon hold all of a large corpus there.

A folder is renamed to its final name when it is complete. Only one process writes it; others that need it wait.
Until then it grows in shards, and the shards that a killed process has finished are kept.
"""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock

from data.errors import UserError, reading
from data.files import atomic_write, read_json
from data.sources.base import Part, threshold

META, INDEX = "meta.json", "index.bin"  # files that every folder has
JOURNAL = "shards.json"  # a further file of an unfinished folder
SHARD_WRITES = 64  # writes of a shard, each of about a million characters: about 15 s on one core
PARTS: tuple[Part | None, ...] = (None, "train", "dev")  # codes of an entry's ``part``
Progress = Callable[[int, int | None], None]  # called with (units done, units in all or None)


class MappedStore(ABC):
    """n units of token ids in C columns, read from disk on access.

    Args:
        folder: filled by ``ColumnWriter`` within ``cached``.
        dev_fraction: share of the units that is held out; not part of the files.
        options: further arguments of the subclass.

    Attributes:
        fingerprint: hexadecimal digest of the text, the tokenizers and the normalisation together.

    Raises:
        UserError: if files are missing, or their lengths do not match the index.
    """

    def __init__(self, folder: Path, *, dev_fraction: float, **options: Any) -> None:
        self.folder = folder
        self.dev_fraction = dev_fraction
        self._options = {"dev_fraction": dev_fraction, **options}
        with reading("token store", folder):
            self._meta = read_json(folder / META)
            self.fingerprint: str = self._meta["fingerprint"]
            count, index, columns = self._layout(self._meta)
            self._index = np.memmap(folder / INDEX, dtype=index, mode="r").view(np.ndarray)
            self._columns = [Column(folder / name, dtype) for name, dtype in columns.items()]
            self._ends = self._index["ends"]
            if len(self._ends) != count or self._ends[-1].tolist() != list(map(len, self._columns)):
                raise ValueError("its files do not fit together: delete it")
        self._lengths = np.diff(self._ends, axis=0, prepend=0)  # (n, C)

    @abstractmethod
    def _layout(self, meta: Mapping[str, Any]) -> tuple[int, np.dtype, Mapping[str, np.dtype]]:
        """Returns the number of units, the dtype of the index, and that of each column by its file's name."""

    def __reduce__(self) -> tuple[Callable[..., MappedStore], tuple[Any, ...]]:
        return partial(type(self), **self._options), (self.folder,)  # a worker opens the files itself

    def __len__(self) -> int:
        return len(self._index)

    def cells(self, i: int) -> list[np.ndarray]:
        """Returns the ids of unit ``i`` in each column, C read-only arrays of shape (length,)."""
        spans = zip(self._columns, self._ends[i].tolist(), self._lengths[i].tolist(), strict=True)
        return [column[end - length : end] for column, end, length in spans]

    def in_part(self, part: Part) -> np.ndarray:
        """Returns which units are in ``part``, of shape (n,), bool: as the source assigns them, else by hash."""
        own, low = self._index["part"], self._index["split"] < threshold(self.dev_fraction)
        return (own == PARTS.index(part)) | ((own == 0) & (low if part == "dev" else ~low))


class Column:
    """The numbers in a file; a slice is read on access, and nothing else is in memory.

    Args:
        path: the file.
        dtype: of a number.

    Raises:
        ValueError: if the file ends within a number.
    """

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._file = path.open("rb", buffering=0)
        self._dtype = dtype
        self._length, rest = divmod(os.fstat(self._file.fileno()).st_size, dtype.itemsize)
        if rest:
            raise ValueError(f"{path.name} ends within a number")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, span: slice) -> np.ndarray:
        """Returns the m numbers in ``span``, of shape (m,), read-only.

        Raises:
            UserError: if the file has become shorter.
        """
        first, last, _ = span.indices(self._length)
        # pread, not read: after a fork, processes share the file's position. It may return less than asked.
        place, end = (max(first, number) * self._dtype.itemsize for number in (first, last))
        content = os.pread(self._file.fileno(), end - place, place)
        while len(content) < end - place:
            more = os.pread(self._file.fileno(), end - place - len(content), place + len(content))
            if not more:
                raise UserError("has become shorter", key=self._file.name)
            content += more
        return np.frombuffer(content, self._dtype)


def entry(columns: int, *fields: tuple[Any, ...]) -> np.dtype:
    """Returns the dtype of an index's entries: ``ends`` in each column, ``split``, and further ``fields``."""
    return np.dtype([("ends", "<i8", (columns,)), ("split", "<u8"), *fields])


class ColumnWriter:
    """Appends units to the index and the columns of a folder, after the last shard of a killed process if any.

    A shard is what ``SHARD_WRITES`` calls of ``write`` append. At its end the files are synced, and their sizes
    are written to a journal; the next writer cuts off what the files have beyond them.

    Args:
        folder: where the files are.
        names: of the columns' files.

    Attributes:
        count: units written.
        ends: ids written in each column.
        state: that of the last ``write`` of the killed process' last shard; None: there is no shard.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._journal = folder / JOURNAL
        paths = [folder / name for name in (INDEX, *names)]
        shard = _last_shard(self._journal, paths)
        self.count: int = shard["count"]
        self.ends: list[int] = shard["ends"]
        self.state: Any = shard["state"]
        self._files = [path.open("ab") for path in paths]
        for file, size in zip(self._files, shard["sizes"], strict=True):
            file.truncate(size)
        self._writes = 0

    def write(
        self, entries: np.ndarray, columns: Sequence[tuple[np.ndarray, np.ndarray]], state: Any = None
    ) -> None:
        """Appends m units.

        Args:
            entries: of the index, of shape (m,); their ``ends`` are filled in here.
            columns: for each column the ids of all units, of shape (sum of lengths,), and the lengths, of
                shape (m,).
            state: whatever else the next writer needs to continue after these units, in JSON's types.
        """
        index, *files = self._files
        for i, (file, (ids, lengths)) in enumerate(zip(files, columns, strict=True)):
            entries["ends"][:, i] = self.ends[i] + np.cumsum(lengths)
            file.write(ids.tobytes())
            self.ends[i] += len(ids)
        index.write(entries.tobytes())
        self.count += len(entries)
        self._writes += 1
        if self._writes % SHARD_WRITES == 0:
            self._sync()
            sizes = [os.fstat(file.fileno()).st_size for file in self._files]
            shard = {"sizes": sizes, "count": self.count, "ends": self.ends, "state": state}
            with atomic_write(self._journal) as journal:
                json.dump(shard, journal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._sync()
        for file in self._files:
            file.close()

    def _sync(self) -> None:
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())


def cached(cache: Path, key: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder ``key`` in ``cache``; if there is none, ``make`` fills it first.

    A second process that asks for the same folder waits for the first. If ``make`` is killed or interrupted,
    the next call gets the folder with its finished shards; if it fails with an error of the text or of the disk,
    the folder is removed.

    Raises:
        OSError: if it cannot be written.
        UserError: if a process of ``make`` is killed.
    """
    folder = cache / key
    if not (folder / META).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{key}.lock"):
            if not (folder / META).exists():
                _fill(folder, make)
    return folder


def _fill(folder: Path, make: Callable[[Path], None]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # it has no ``META``
    unfinished = folder.with_suffix(".part")  # only the holder of the lock writes
    unfinished.mkdir(exist_ok=True)
    try:
        make(unfinished)
        unfinished.rename(folder)
        (folder / JOURNAL).unlink(missing_ok=True)  # last: without it a folder is started anew
    except BaseException as error:
        keep = not isinstance(error, (UserError, OSError)) and (unfinished / JOURNAL).exists()
        if not keep:
            shutil.rmtree(unfinished, ignore_errors=True)
        if isinstance(error, BrokenProcessPool):
            hint = "The same command continues after what is stored." if keep else ""
            raise UserError("a process that tokenises was killed, perhaps for lack of memory", hint=hint) from None
        raise


def _last_shard(journal: Path, paths: Sequence[Path]) -> dict[str, Any]:
    """Returns the contents of ``journal``, or an empty shard if there is none."""
    if journal.exists():
        return dict(read_json(journal))
    return {"sizes": [0] * len(paths), "count": 0, "ends": [0] * (len(paths) - 1), "state": None}
