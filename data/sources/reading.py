"""Files of a source: found by name, read line by line, one line of blame for what is not as it should be."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from data.errors import UserError, reason


def located(pattern: str, kinds: Sequence[str], key: str) -> list[Path]:
    """The files that a setting names: one file, those of a folder that end in one of ``kinds``, those of a glob.

    Args:
        pattern: path or glob; ``~`` is the home folder.
        kinds: endings, in lower case, dot included.
        key: of the setting, for messages.

    Raises:
        UserError: if there is none.
    """
    path = Path(pattern).expanduser()
    if path.is_dir():
        found = [
            inside
            for inside in sorted(path.rglob("*"))
            if inside.name.lower().endswith(tuple(kinds)) and inside.is_file()
        ]
        if not found:
            raise UserError(f"{key}: no file in {path} ends in {', '.join(kinds)}.")
    elif path.exists():
        found = [path]
    else:
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute ones)
        found = [Path(name) for name in names if Path(name).is_file()]
    if not found:
        raise UserError(f"{key}: there is no {path}{_nearest(path)}.")
    if not any(file.stat().st_size for file in found):
        raise UserError(
            f"{key}: {path} is empty." if len(found) == 1 else f"{key}: all files of {path} are empty."
        )
    return found


def listed(paths: str | Sequence[str] | None) -> list[str]:
    """A setting that is one path, several or none, as a list."""
    return [paths] if isinstance(paths, str) else list(paths or [])


def digest(path: Path) -> str:
    """A name of what a file holds."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a UTF-8 file, gzipped or not, with their ends; only \n ends a line, and a BOM is dropped.

    Raises:
        UserError: if it is binary, not UTF-8, or cannot be read to its end.
    """
    number = 0
    try:
        with _open(path) as stream:
            if b"\0" in stream.peek(4096)[:4096]:  # before a line of a gigabyte is read
                raise UserError(f"{path}:1: a NUL byte; this is a binary file, not text.")
            for number, line in enumerate(stream, 1):
                if b"\0" in line:
                    raise UserError(f"{path}:{number}: a NUL byte; this is a binary file, not text.")
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{number}: not UTF-8 text ({error.reason}).") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read after line {number} ({reason(error)}).") from error


def _nearest(path: Path) -> str:
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
