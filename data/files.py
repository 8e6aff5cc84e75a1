"""Atomic writing (a temporary file is synced, then renamed), JSON and YAML files, locks of folders."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import yaml
from filelock import FileLock, Timeout

from data.errors import UserError, reading


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a file beside ``path`` for writing ("w" or "wb") and renames it on success; on failure removes it.

    The folder is made if it is missing.

    Raises:
        OSError: if ``path`` is a folder, a pipe or a device, or cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))
    unfinished = _temporary(path)
    try:
        with unfinished.open(mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder to write into, which replaces ``folder`` on success and is removed on failure.

    Where ``folder`` is a link, the folder that it leads to is replaced.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished, old = _temporary(folder), _temporary(folder)
    unfinished.mkdir()
    try:
        yield unfinished
        for path in filter(Path.is_file, unfinished.rglob("*")):
            path.chmod(unfinished.stat().st_mode & 0o666)  # some libraries make private files
            with path.open("rb") as file:
                os.fsync(file.fileno())
        if folder.exists():
            folder.replace(old)
        unfinished.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_json(path: Path | str, value: Any) -> None:
    """Writes ``value`` as indented JSON, atomically."""
    with atomic_write(path) as file:
        print(json.dumps(value, indent=2, ensure_ascii=False), file=file)


def read_json(path: Path) -> Any:
    """Returns the value in a JSON file.

    Raises:
        UserError: if it cannot be read.
    """
    with reading("JSON file", path):
        return json.loads(path.read_bytes())


def read_yaml(path: Path) -> Any:
    """Returns the value in a YAML file, interpolations as text; of numbers without a dot (1e-4), the text.

    Raises:
        UserError: if it cannot be read.
    """
    with reading("YAML file", path):
        return yaml.safe_load(path.read_text(encoding="utf-8"))


def build_once(folder: Path, build: Callable[[Path], object]) -> None:
    """Builds ``folder`` if there is none; another process that needs it waits.

    Args:
        folder: the folder, complete as soon as it is there.
        build: fills a folder beside it; after a kill, the next call gets this folder again.
    """
    unfinished = folder.with_name(f"{folder.name}.part")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            unfinished.mkdir(exist_ok=True)
            try:
                build(unfinished)
            except UserError:
                shutil.rmtree(unfinished)
                raise
            unfinished.rename(folder)


@contextmanager
def lock_folder(folder: Path, use: str) -> Iterator[None]:
    """Locks ``folder``, created if needed, against other processes with this use; removes it if it stays empty.

    Raises:
        UserError: if it is in use or cannot be written.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    path = folder / f".{use}.lock"
    with reading("folder to write into", folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"in use by another {use}", key=str(folder)) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before others can lock it
        lock.release()
        with suppress(OSError):  # until one is not empty
            for each in created:
                each.rmdir()


def _temporary(path: Path) -> Path:
    """Returns a new path for a hidden file or folder beside ``path``."""
    return path.with_name(f".{path.name}.{token_hex(4)}.part")
