"""Atomic writing (a temporary file is synced, then renamed), and bounded reading of untrusted files."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import yaml
from filelock import FileLock, Timeout

from data.errors import UserError, reason
from data.schema import mismatch

YAML_BYTES, JSON_BYTES, JOURNAL_BYTES = 2**18, 2**23, 2**30  # limits on the size of a file
DEPTH = 64  # of nested lists and mappings, or of nested folders


@contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a file beside ``path`` for writing ("w" or "wb") and renames it on success; on failure removes it.

    Raises:
        NotAFileError: if ``path`` is a pipe, a device or a folder.
    """
    path = _file(path)
    encoding = None if "b" in mode else "utf-8"
    unfinished = _hidden(path, "part")
    try:
        with unfinished.open(mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _hidden(path: Path, ending: str) -> Path:
    """Returns a new path for a hidden file or folder beside ``path``."""
    return path.with_name(f".{path.name}.{token_hex(4)}.{ending}")


class _PlainLoader(yaml.SafeLoader):
    """Reads YAML without aliases, as a few can expand to billions of values; 1e-4 is a number."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("an alias (*name) is not allowed")
        return super().compose_node(parent, index)


_PlainLoader.add_implicit_resolver(  # PyYAML takes a float without a dot for text
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_json(path: Path) -> Any:
    """Returns the value in a JSON file.

    Raises:
        OSError: if it cannot be read.
        ValueError: naming the file, if it is damaged, or larger or deeper than any that the suite writes.
    """
    return _parsed(path, "JSON", json.loads, JSON_BYTES)


def plain_yaml(text: str) -> Any:
    """Returns the value of YAML without aliases.

    Raises:
        ValueError: at an alias.
        yaml.YAMLError: if it is not YAML.
    """
    return yaml.load(text, _PlainLoader)


def read_yaml(path: Path) -> Any:
    """Returns the value in a YAML file, in JSON's types, interpolations as text. Raises as ``read_json`` does."""
    return _parsed(path, "YAML", plain_yaml, YAML_BYTES)


class NotAFileError(OSError):
    """A pipe, a device or a folder in the place of a file."""


def _file(path: Path | str) -> Path:
    path = Path(path)
    if path.exists() and not path.is_file():
        raise NotAFileError(errno.EINVAL, "not a file", str(path))
    return path


def open_bytes(path: Path) -> IO[bytes]:
    """Opens a regular file; reading a pipe or a device might never end.

    Raises:
        OSError: if it is not a regular file, or cannot be opened.
    """
    return _file(path).open("rb")


def read_text(path: Path, most: int) -> str:
    """Returns the text of a regular file of at most ``most`` bytes. Raises as ``read_json`` does."""
    try:
        file = open_bytes(path)
    except NotAFileError as error:
        raise ValueError(f"{path.name} is {reason(error)}") from None
    with file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} is larger than {most:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {reason(error)}") from None


def _parsed(path: Path, form: str, parse: Callable[[str], Any], most: int) -> Any:
    text = read_text(path, most)
    try:
        value = parse(text)
        _require_plain(value)
    except Exception as error:  # PyYAML's constructors and deep nesting raise errors of many kinds
        why = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ValueError(f"{path.name} is not {form} that can be read: {why[:200]}") from None
    return value


def _require_plain(value: Any) -> None:
    """Raises ValueError for types that JSON lacks, text that is not UTF-8, and deep nesting."""
    level = [value]
    for _ in range(DEPTH):
        if not level:
            return
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise ValueError("a key is not text")
                inner += [*one, *one.values()]
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, str):
                if "\0" in one:
                    raise ValueError("its text has a null character")
                one.encode()  # raises for half of a surrogate pair
            elif isinstance(one, int):
                float(one)  # raises for a number of thousands of digits
            elif one is not None and not isinstance(one, float):
                raise ValueError(f"a value is of type {type(one).__name__}")
        level = inner
    raise ValueError(f"it is nested more than {DEPTH} deep")


def write_json(path: Path | str, value: Any) -> None:
    """Writes ``value`` as indented JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def leads_out(path: Path, folder: Path) -> bool:
    """Returns whether ``path``, below ``folder``, is or goes through a link out of it.

    A snapshot in a cache of the hub, models--<name>/snapshots/<commit>, may link into models--<name>/blobs.
    """
    root = Path(os.path.realpath(folder))
    if root.parent.name == "snapshots" and root.parts[-3].startswith(("models--", "datasets--")):
        root = root.parent.parent
    return not Path(os.path.realpath(path)).is_relative_to(root)


def contained(folder: Path) -> Path:
    """Returns ``folder`` if no link in it leads out of it.

    Raises:
        UserError: if there is a link out of it or to a folder, something that is neither a file nor a folder, or
            a folder more than ``DEPTH`` deep.
    """
    for path in _inside(folder):
        if path.is_symlink() and (path.is_dir() or leads_out(path, folder)):
            raise UserError(f"{path} is a link out of its folder, or to a folder: copy what it leads to.")
        if not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is neither a file nor a folder.")
    return folder


def _inside(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Yields everything below ``folder``, without following links to folders.

    Raises:
        UserError: if folders are nested deeper than ``depth``: the time to resolve paths grows with its square.
    """
    if depth == 0:
        raise UserError(f"{folder} is one of more than {DEPTH} folders inside each other.")
    try:
        found = [*folder.iterdir()]
    except OSError:  # gone, or closed to this user, who then cannot follow what is in it
        return
    for path in found:
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _inside(path, depth - 1)


def read_as(path: Path, kind: Any) -> Any:
    """Returns the content of a JSON file, which must be of the type ``kind``.

    Raises:
        OSError, ValueError: if it cannot be read.
        UserError: if it is of another type.
    """
    value = read_json(path)
    if fault := mismatch(kind, value):
        raise UserError(f"{path}: {' '.join(part for part in fault if part)}.")
    return value


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder to write into, which replaces ``folder`` on success and is removed on failure.

    Where ``folder`` is a link, the folder that it leads to is replaced.
    """
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = _hidden(folder, "part")
    unfinished.mkdir()
    try:
        yield unfinished
        for path in (*unfinished.rglob("*"), unfinished):
            if path.is_file():
                path.chmod(unfinished.stat().st_mode & 0o666)  # some libraries make private files
            _sync(path)
        if folder.exists() and _swapped(unfinished, folder):
            shutil.rmtree(unfinished)
        elif folder.exists():
            old = _hidden(folder, "old")
            folder.replace(old)
            unfinished.replace(folder)
            shutil.rmtree(old)
        else:
            unfinished.replace(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _sync(path: Path) -> None:
    """Waits until a file or the entries of a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swapped(one: Path, other: Path) -> bool:
    """Swaps two folders in one step; returns False where the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # of Linux; AT_FDCWD is -100, RENAME_EXCHANGE 2
    return rename is not None and rename(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0


def refuse_links_out(folder: Path) -> None:
    """Refuses a folder with a link out of it, through which writing would change other files.

    Raises:
        UserError: naming the link, or a folder that is more than ``DEPTH`` deep.
    """
    root = Path(os.path.realpath(folder))
    for path in _inside(root):
        if not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(root):
            continue
        inside = path.relative_to(root)
        if inside.parts[0] == "trackers" and not path.is_dir() and len(inside.parts) > 1:
            continue  # wandb links its log, which the suite does not open
        raise UserError(f"{folder / inside} is a link that leaves {folder}: replace it by what it leads to.")


@contextmanager
def alone_in(folder: Path, use: str) -> Iterator[None]:
    """Locks ``folder``, created if needed, against other processes with this use; removes it if it stays empty.

    Raises:
        UserError: if it is in use, cannot be written or has a link that leaves it.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    path = folder / f".{use}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links_out(folder)
        lock = FileLock(path)
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{folder} is in use by another {use}.") from None
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): name another folder.") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before others can lock it
        lock.release()
        with suppress(OSError):  # until one is not empty
            for each in made:
                each.rmdir()
