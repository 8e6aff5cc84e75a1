"""Finds the files of a source and reads them line by line."""

from __future__ import annotations

import codecs
import glob
import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from data.errors import UserError, reading


def find_files(paths: str | Sequence[str] | None, kinds: Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting names, each once, in an order that is always the same.

    Args:
        paths: a file, a glob, a folder (all files in it of these ``kinds``) or several of these; ``~`` is the home
            folder; None: none.
        kinds: endings without ".gz", which may follow.
        key: key of the setting.

    Raises:
        UserError: if a path or glob names no file.
    """
    files: dict[Path, None] = {}
    for pattern in as_list(paths):
        with reading("path", key):
            path = Path(pattern).expanduser()
            if path.is_dir():
                names = [name for name in sorted(path.rglob("*")) if file_kind(name) in kinds]
            elif path.exists():
                names = [path]
            else:  # Path.glob refuses absolute patterns
                names = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
            matches = [name for name in names if not name.is_dir()]
        if not matches:
            raise UserError(f"no file at {path}", key=key, hint=f"Of a folder, {', '.join(kinds)} are read.")
        files |= dict.fromkeys(matches)
    return list(files)


def as_list(paths: str | Sequence[str] | None) -> list[str]:
    """Returns the values of a setting that may be single or absent."""
    return [paths] if isinstance(paths, str) else list(paths or [])


def file_kind(path: Path) -> str:
    """Returns the ending of a file's name in lower case, without ".gz"."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def digest(path: Path) -> str:
    """Returns a hexadecimal digest of a file's content."""
    with reading("file", path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


@contextmanager
def open_packed(path: Path) -> Iterator[Any]:
    """Opens a file; yields its unpacked content (.gz, or the only member of a .zip)."""
    with path.open("rb") as file, ExitStack() as stack:
        stream: Any = file
        if path.suffix == ".gz":
            stream = stack.enter_context(gzip.open(file))
        elif path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file))
            [member] = [member for member in archive.infolist() if not member.is_dir()]
            stream = stack.enter_context(archive.open(member))
        yield stream


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields numbered lines of a file, packed or not, as bytes."""
    with reading("file", path), open_packed(path) as stream:
        yield from enumerate(stream, 1)


def lines(path: Path, done: Callable[[int], object] = lambda position: None) -> Iterator[tuple[int, str]]:
    r"""Yields numbered lines of a text file, packed or not, with their ends; only \n ends one.

    The text is UTF-8, or UTF-16 if it begins with a byte order mark.

    Args:
        path: the file.
        done: called before each line with the number of bytes read from the file on disk.

    Raises:
        UserError: if the file is in another encoding, binary, or cut short.
    """
    with reading("UTF-8 text file", path), open_packed(path) as stream:
        encoding = "utf-16" if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        file = getattr(stream, "fileobj", stream)  # below gzip
        for number, line in enumerate(io.TextIOWrapper(stream, encoding, newline="\n"), 1):
            if "\0" in line:
                text = "NUL characters: a binary file, or UTF-16 without a byte order mark"
                raise UserError(text, key=f"{path}:{number}")
            done(file.tell())
            yield number, line


def aligned_lines(*paths: Path) -> Iterator[tuple[str, ...]]:
    """Yields the corresponding lines of files that are aligned line by line.

    Raises:
        UserError: if the files do not have the same number of lines, or as ``lines`` does.
    """
    with reading("group of aligned files", ", ".join(map(str, paths))):
        yield from zip(*[(line for _, line in lines(path)) for path in paths], strict=True)
