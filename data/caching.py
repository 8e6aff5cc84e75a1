"""Folders that are made once under a name, and are whole or not there, whoever asks for them at the same time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from data.errors import UserError, reason

META = "meta.json"  # the file that every such folder has


def cached(cache: Path, key: str, make: Callable[[Path], None]) -> Path:
    """The token store ``key`` in ``cache``, after ``make`` filled a new folder where there was none.

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
    """What to say of a folder whose files are not what they must be."""
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
