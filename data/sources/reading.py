"""Finds the files of a source and reads them line by line, within bounds; errors are one line."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from data.errors import UserError, reason
from data.files import leads_out, open_bytes

# Bytes of a line, and of a file that is one document: more than a very long novel. Tokenising a document of this
# size takes up to 2 GB of memory.
MOST_BYTES = 6 << 20
# Raised if a file cannot be read or is a damaged archive; RuntimeError: if it is encrypted.
_BROKEN = (OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def located(pattern: str, kinds: Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting names: one file, those of a folder that end in ``kinds``, those of a glob.

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
        if not path.is_file():
            raise UserError(f"{key}: {path} is neither a file nor a folder.")
        found = [path]
    else:
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute ones)
        found = [Path(name) for name in names if Path(name).is_file()]
    if not found:
        raise UserError(f"{key}: there is no {path}{_nearest(path)}.")
    if path not in found:  # not named itself
        root = next(parent for parent in (path, *path.parents) if parent.is_dir())
        if out := next((file for file in found if leads_out(file, root)), None):
            raise UserError(f"{key}: {out} is a link out of {root}: name what it leads to, or copy that.")
    if not any(file.stat().st_size for file in found):
        raise UserError(
            f"{key}: {path} is empty." if len(found) == 1 else f"{key}: all files of {path} are empty."
        )
    return found


def listed(paths: str | Sequence[str] | None) -> list[str]:
    """Returns a setting that is one path, several or none as a list."""
    return [paths] if isinstance(paths, str) else list(paths or [])


def all_located(paths: str | Sequence[str] | None, kinds: Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting of one path, several or none names, each once. Raises as ``located``."""
    return list(dict.fromkeys(path for pattern in listed(paths) for path in located(pattern, kinds, key)))


def digest(path: Path) -> str:
    """Returns a hexadecimal digest of a file's content."""
    with path.open("rb") as stream:
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
            raise UserError(f"{path}:{number}: not UTF-8 text ({error.reason}).") from error


def raw_lines(
    path: Path, most: int = MOST_BYTES, key: str = "", done: Callable[[int], object] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yields numbered lines of a file, packed (.gz, .zip) or not, as bytes; at most ``most`` bytes are in memory.

    Args:
        path: the file.
        most: bytes of a line.
        key: of the setting that raises ``most``, for messages; "": there is none.
        done: called before each line with the number of bytes read from the file on disk.

    Raises:
        UserError: if it is binary, has too long a line, or cannot be read to its end.
    """
    number = 0
    try:
        with _opened(path) as (stream, raw):
            for number, line in enumerate(iter(partial(stream.readline, most + 1), b""), 1):
                if b"\0" in line:
                    raise UserError(f"{path}:{number}: a NUL byte; this is a binary file, not text.")
                if len(line) > most:
                    raise too_long(f"{path}:{number}", "line", most, key)
                if done is not None:
                    done(raw.tell())
                yield number, line
    except FileNotFoundError as error:
        raise UserError(f"{path} cannot be read ({reason(error)}).") from error
    except _BROKEN as error:
        raise UserError(f"{path}: cannot be read after line {number} ({reason(error)}).") from error


def aligned(*paths: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yields numbered tuples of the corresponding lines of files that are aligned line by line.

    Raises:
        UserError: if the files do not have the same number of lines, or as ``lines`` does.
    """
    streams = [lines(path) for path in paths]
    number = 0
    while None not in (row := [next(stream, None) for stream in streams]):
        number += 1
        yield number, tuple(line[1] for line in row if line is not None)
    counts = [number + (line is not None) + sum(1 for _ in rest) for line, rest in zip(row, streams, strict=True)]
    if len({*counts}) > 1:
        first, *others = (f"{path} has {count:,}" for path, count in zip(paths, counts, strict=True))
        raise UserError(f"{' and '.join([f'{first} lines', *others])}: the numbers must be equal.")


def too_long(where: str, what: str, most: int, key: str = "", unit: str = "bytes") -> UserError:
    """Returns the error for a line, row or document of more than ``most`` units, a limit set by ``key``."""
    bound = f"{key}={most}" if key else f"{most:,}"
    return UserError(
        f"{where}: the {what} is longer than {bound} {unit}; divide it{f' or raise {key}' * bool(key)}."
    )


def parsed(line: str, where: str, needed: str) -> dict[str, Any]:
    """Returns the object in a line of JSON.

    Args:
        line: the text.
        where: file and line, for messages.
        needed: fields that the object needs, for messages.

    Raises:
        UserError: if it is not JSON, is nested too deep, or is no object.
    """
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not a line of JSON ({error.msg}, column {error.colno}).") from None
    except RecursionError:
        raise UserError(f"{where}: not a line of JSON that can be read (nested too deep).") from None
    except ValueError:  # Python refuses to convert so many digits
        raise UserError(f"{where}: not a line of JSON that can be read (a number of too many digits).") from None
    if not isinstance(record, dict):
        raise UserError(f"{where}: not a JSON object with {needed}.")
    return record


def _nearest(path: Path) -> str:
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Opens a file; yields what is unpacked from it (.gz, or the one file of a .zip), and the file itself."""
    with open_bytes(path) as raw, ExitStack() as stack:
        stream: Any = raw
        if path.suffix == ".gz":
            stream = stack.enter_context(gzip.open(raw))
        elif path.suffix == ".zip":
            try:
                archive = stack.enter_context(zipfile.ZipFile(raw))
                inside = [entry for entry in archive.infolist() if not entry.is_dir()]
                if len(inside) != 1:
                    raise UserError(f"{path} holds {len(inside)} files: unpack it and name the one that is meant.")
                stream = stack.enter_context(archive.open(inside[0]))
            except (ValueError, IndexError, struct.error) as error:  # of damaged names and numbers
                raise zipfile.BadZipFile(str(error)) from error
        yield stream, raw
