"""Finds the files of a source and reads them line by line."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from data.errors import UserError, reading

# Bytes of a line, and of a file that is one document: more than a very long novel. Tokenising a document of this
# size takes up to 2 GB of memory.
MOST_BYTES = 6 << 20


def find_files(paths: str | Sequence[str] | None, kinds: Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting names, each once: files, those of folders that end in ``kinds``, globs.

    Args:
        paths: path, glob or several of these; ``~`` is the home folder; None: none.
        kinds: endings, in lower case, dot included.
        key: of the setting.

    Raises:
        UserError: if a path or glob names no file.
    """
    files: dict[Path, None] = {}
    for pattern in [paths] if isinstance(paths, str) else paths or []:
        with reading("path", key):
            files |= dict.fromkeys(_find(Path(pattern).expanduser(), tuple(kinds), key))
    return list(files)


def find_file(path: str, kinds: Sequence[str], key: str) -> Path:
    """Returns the only file that a setting names. Raises as ``find_files``, and if there are several."""
    files = find_files(path, kinds, key)
    if len(files) > 1:
        raise UserError(f"{path} stands for {len(files)} files", key=key)
    return files[0]


def digest(path: Path) -> str:
    """Returns a hexadecimal digest of a file's content."""
    with reading("file", path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


def lines(
    path: Path, most: int = MOST_BYTES, key: str = "", done: Callable[[int], object] | None = None
) -> Iterator[tuple[int, str]]:
    r"""Yields numbered lines of a UTF-8 file, packed or not, with their ends; only \n ends one, a BOM is dropped.

    Args:
        path: the file.
        most, key, done: see ``raw_lines``.

    Raises:
        UserError: if it is binary, not UTF-8, has too long a line, or cannot be read to its end.
    """
    for number, line in raw_lines(path, most, key, done):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"not UTF-8 text ({error.reason})", key=f"{path}:{number}") from error


def raw_lines(
    path: Path, most: int = MOST_BYTES, key: str = "", done: Callable[[int], object] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yields numbered lines of a file, packed (.gz, .zip) or not, as bytes; at most ``most`` bytes are in memory.

    Args:
        path: the file.
        most: bytes of a line.
        key: of the setting that raises ``most``; "": there is none.
        done: called before each line with the number of bytes read from the file on disk.

    Raises:
        UserError: if it is binary, has too long a line, or cannot be read to its end.
    """
    with reading("text file", path), _open(path) as (stream, file):
        for number, line in enumerate(iter(partial(stream.readline, most + 1), b""), 1):
            if b"\0" in line:
                raise UserError("a NUL byte: this is a binary file, not text", key=f"{path}:{number}")
            if len(line) > most:
                raise too_long(f"{path}:{number}", most, key)
            if done is not None:
                done(file.tell())
            yield number, line


def aligned_lines(*paths: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields numbered tuples of the corresponding lines of files that are aligned line by line.

    Raises:
        UserError: if the files do not have the same number of lines, or as ``lines`` does.
    """
    number = 0
    streams = [(line for _, line in lines(path)) for path in paths]
    try:
        for number, row in enumerate(zip(*streams, strict=True), 1):
            yield number, row
    except ValueError:
        names = ", ".join(map(str, paths))
        raise UserError(f"numbers of lines differ (some end after line {number:,})", key=names) from None


def too_long(where: str, most: int, key: str = "", unit: str = "bytes") -> UserError:
    """Returns the error for a text of more than ``most`` units, a limit set by ``key``."""
    return UserError(f"longer than {most:,} {unit}", key=where, hint=f"Divide it or raise {key}." * bool(key))


def parse_object(line: str, where: str) -> dict[str, Any]:
    """Returns the object in a line of JSON.

    Args:
        line: the text.
        where: file and line.

    Raises:
        UserError: if it is not JSON, or no object.
    """
    with reading("JSON object", where):
        record = json.loads(line)
        if not isinstance(record, dict):
            raise TypeError(f"it is of type {type(record).__name__}")
        return record


def _find(path: Path, kinds: tuple[str, ...], key: str) -> list[Path]:
    if path.is_dir():
        names = sorted(path.rglob("*"))
        if files := [name for name in names if name.name.lower().endswith(kinds) and name.is_file()]:
            return files
        raise UserError(f"no file in {path} ends in {', '.join(kinds)}", key=key)
    if path.exists():
        return [path]
    names = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 (Path.glob refuses absolute ones)
    if files := [name for name in names if name.is_file()]:
        return files
    beside = [name.name for name in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    raise UserError(f"there is no {path}", key=key, hint=f"Did you mean {near[0]}?" if near else "")


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Opens a file; yields what is unpacked from it (.gz, or the one file of a .zip), and the file itself."""
    with path.open("rb") as file, ExitStack() as stack:
        stream: Any = file
        if path.suffix == ".gz":
            stream = stack.enter_context(gzip.open(file))
        elif path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file))
            [member] = [member for member in archive.infolist() if not member.is_dir()]
            stream = stack.enter_context(archive.open(member))
        yield stream, file
