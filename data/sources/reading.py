"""Finds the files of a source and reads them line by line."""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data.errors import UserError, reading

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = "data/samples/"  # of the checkout, wherever a command is started


def find_files(paths: str | Sequence[str] | None, kinds: Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting names, each once, in an order that is always the same.

    Args:
        paths: a file, a glob, a folder (all files in it of these ``kinds``) or several of these; ``~`` is the home
            folder, ``data/samples`` the checkout's; None: none.
        kinds: endings without ".gz", which may follow.
        key: key of the setting.

    Raises:
        UserError: if a path or glob names no file.
    """
    files: dict[Path, None] = {}
    for pattern in as_list(paths):
        with reading("path", key):
            path = Path(pattern).expanduser()
            if pattern.startswith(SAMPLES):
                path = ROOT / path
            if path.is_dir():
                names = [name for name in sorted(path.rglob("*")) if file_kind(name) in kinds]
            elif path.exists():
                names = [path]
            else:  # Path.glob refuses absolute patterns
                names = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
            names = [name for name in names if not name.is_dir()]
        if not names:
            raise UserError(f"no file at {path}", key=key, hint=f"Of a folder, {', '.join(kinds)} are read.")
        files |= dict.fromkeys(names)
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


def open_unpacked(path: Path) -> Any:
    """Opens a file, or the content of a .gz file, as a stream of bytes."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def lines(path: Path | str) -> Iterator[str]:
    r"""Yields the lines of a text file, packed or not, with their ends; only \n ends one.

    Raises:
        UserError: if the file is not UTF-8, binary, or cut short.
    """
    with reading("UTF-8 text file", path), open_unpacked(Path(path).expanduser()) as stream:
        for line in io.TextIOWrapper(stream, "utf-8-sig", newline="\n"):
            if "\0" in line:
                raise ValueError("NUL characters, as UTF-16 has")
            yield line


def stripped_lines(path: Path | str) -> Iterator[str]:
    """Yields the ``lines`` that are not blank, without white space at their ends."""
    return filter(None, map(str.strip, lines(path)))
