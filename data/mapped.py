"""Columns of token ids in memory-mapped files, made once under a name: the base of token and pair stores.

A folder has an index, with an entry for each unit (where its tokens end in each column, and what decides its
part), and a file for each column. It is whole or not there, however many processes ask for it at the same time.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from data.errors import UserError, reason
from data.files import read_json
from data.sources.base import Part, threshold

META, INDEX = "meta.json", "index.bin"  # files that every folder has
PARTS: tuple[Part | None, ...] = (None, "train", "dev")  # codes of an entry's ``part``
Progress = Callable[[int, int | None], None]  # called with (units done, units in all or None)


class MappedStore(ABC):
    """n units of token ids in C columns, read from disk as they are asked for.

    Args:
        folder: what ``cached`` and ``write_columns`` made.
        dev_fraction: share of the units that is held out; not part of the files.
        options: further arguments of the subclass.

    Attributes:
        fingerprint: name of the text, the tokenizers and the normalisation together.

    Raises:
        UserError: if files are missing or not as long as they must be.
    """

    def __init__(self, folder: Path, *, dev_fraction: float, **options: Any) -> None:
        self.folder = folder
        self.dev_fraction = dev_fraction
        self._options = {"dev_fraction": dev_fraction, **options}
        try:
            self._meta = read_json(folder / META)
            self.fingerprint: str = self._meta["fingerprint"]
            count, index, columns = self._layout(self._meta)
            self._index = _mapped(folder / INDEX, index)
            self._columns = [_mapped(folder / name, dtype) for name, dtype in columns.items()]
            self._ends = self._index["ends"]
            whole = len(self._ends) == count and self._ends[-1].tolist() == list(map(len, self._columns))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise damaged(folder) from error
        if not whole:
            raise damaged(folder)
        self._lengths = np.diff(self._ends, axis=0, prepend=0)  # (n, C)

    @abstractmethod
    def _layout(self, meta: Mapping[str, Any]) -> tuple[int, np.dtype, Mapping[str, np.dtype]]:
        """Returns the number of units, the index's type, and each column's type by its file's name."""

    def __reduce__(self) -> tuple[Callable[..., MappedStore], tuple[Any, ...]]:
        return partial(type(self), **self._options), (self.folder,)  # a worker maps the files itself

    def __len__(self) -> int:
        return len(self._index)

    def cells(self, i: int) -> list[np.ndarray]:
        """Returns the ids of unit ``i`` in each column, read-only."""
        spans = zip(self._columns, self._ends[i].tolist(), self._lengths[i].tolist(), strict=True)
        return [column[end - length : end] for column, end, length in spans]

    def in_part(self, part: Part) -> np.ndarray:
        """Returns which units belong to ``part``, of shape (n,), bool: their own, else by their hash."""
        own, low = self._index["part"], self._index["split"] < threshold(self.dev_fraction)
        return (own == PARTS.index(part)) | ((own == 0) & (low if part == "dev" else ~low))


def entry(columns: int, *fields: tuple[Any, ...]) -> np.dtype:
    """Returns the type of an index's entries: ``ends`` in each column, ``split``, and further ``fields``."""
    return np.dtype([("ends", "<i8", (columns,)), ("split", "<u8"), *fields])


def write_columns(
    folder: Path, names: list[str], chunks: Iterable[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]
) -> tuple[int, list[int]]:
    """Writes the index and the columns ``names`` into ``folder``.

    Args:
        chunks: for some units their entries, of shape (m,), whose ``ends`` are filled in here, and of each column
            the ids in one row and the number of them in each unit, of shape (m,).

    Returns:
        Number of units, and of the ids in each column.
    """
    count, ends = 0, np.zeros(len(names), np.int64)
    with ExitStack() as stack:
        index, *files = [stack.enter_context((folder / name).open("wb")) for name in (INDEX, *names)]
        for entries, columns in chunks:
            for i, (ids, lengths) in enumerate(columns):
                entries["ends"][:, i] = ends[i] + np.cumsum(lengths)
                files[i].write(ids.tobytes())
                ends[i] += len(ids)
            index.write(entries.tobytes())
            count += len(entries)
        for file in (index, *files):
            file.flush()
            os.fsync(file.fileno())
    return count, ends.tolist()


def cached(cache: Path, key: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder ``key`` in ``cache``, after ``make`` filled a new one where there was none.

    A second process that asks for the same folder waits for the first. What ``make`` leaves unfinished is removed.

    Raises:
        UserError: if it cannot be written.
    """
    folder = cache / key
    if not (folder / META).exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(cache / f"{key}.lock"):
                if not (folder / META).exists():
                    _fill(folder, make)
        except OSError as error:
            raise UserError(f"The token store could not be written to {cache}: {reason(error)}.") from error
    return folder


def damaged(folder: Path) -> UserError:
    """Returns the error for a folder whose files are not what they must be."""
    return UserError(f"The token store in {folder} is damaged: delete the folder, it will be made anew.")


def _fill(folder: Path, make: Callable[[Path], None]) -> None:
    beside = folder.with_suffix(".part")
    for rest in (beside, folder):  # of a process that was killed: whoever holds the lock writes alone
        shutil.rmtree(rest, ignore_errors=True)
    beside.mkdir()
    try:
        make(beside)
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _mapped(path: Path, dtype: np.dtype) -> np.ndarray:
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)
