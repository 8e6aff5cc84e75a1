"""Text files as a corpus: .txt, .jsonl and .parquet files, folders of them, globs."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from data.errors import UserError, readable, reason
from data.sources.base import Document, Part, Source
from data.sources.pydocs import Pydocs

KINDS = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")


class _File(NamedTuple):
    path: Path
    kind: str
    whole: bool  # one document in all, not one a line


class Text(Source):
    """Documents in files.

    A .txt file has one document a line, but a folder of .txt files has one a file. A line of a .jsonl file is
    an object whose ``field`` is the text; so is a row of a .parquet file. ``.gz`` may follow ``.txt`` and
    ``.jsonl``.

    Args:
        path: a file, a folder (with all that is in it), a glob, or a list of these; ``~`` is the home folder.
        field: name of the text's field.
        group_field: name of the field whose part before "/" says what belongs together (with ids like
            "book/0012": the book), so that the split does not tear it apart.
        dev_path: files of the held-out documents; then nothing of ``path`` is held out.
        pydocs: whether the corpus ``pydocs`` is read besides, held out as it is by itself.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if a path is missing, or a file is empty, binary or not what its ending says.
    """

    name = "text"

    def __init__(
        self,
        *,
        path: str | Sequence[str],
        field: str = "text",
        group_field: str | None = None,
        dev_path: str | Sequence[str] | None = None,
        pydocs: bool = False,
        fraction: float = 1.0,
        dev_fraction: float = 0.05,
        lowercase: bool = False,
    ) -> None:
        super().__init__(fraction=fraction, dev_fraction=dev_fraction, lowercase=lowercase)
        self.path = [path] if isinstance(path, str) else list(path)
        self.field = field
        self.group_field = group_field
        with readable("corpus.path"):
            held_out = _files([dev_path] if isinstance(dev_path, str) else dev_path or [], "corpus.dev_path")
            paths = {file.path for file in held_out}
            files = [file for file in _files(self.path, "corpus.path") if file.path not in paths]
        if not files:
            raise UserError("corpus.path: no file is left beside those of corpus.dev_path.")
        part: Part | None = "train" if held_out else None
        self._files: list[tuple[_File, Part | None]] = [(file, part) for file in files]
        self._files += [(file, "dev") for file in held_out]
        self._pydocs = Pydocs() if pydocs else None

    def documents(self) -> Iterator[Document]:
        for file, part in self._files:
            for text, group in self._read(file):
                yield Document(text, group, part)
        if self._pydocs is not None:
            yield from self._pydocs.documents()

    def identity(self) -> Iterator[str | bytes]:
        yield f"{self.field} {self.group_field}"
        for file, part in self._files:
            with file.path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "blake2b").hexdigest()
            yield f"{file.kind} {file.whole} {part} {digest}"
        if self._pydocs is not None:
            yield from self._pydocs.identity()

    def describe(self) -> dict[str, Any]:
        where = [*self.path, *(["pydocs"] if self._pydocs is not None else [])]
        return {"name": self.name, "where": ", ".join(where), "licence": None}

    def _read(self, file: _File) -> Iterator[tuple[str, str | None]]:
        if file.kind == ".parquet":
            return self._rows(file.path)
        lines = _lines(file.path)
        if file.kind.startswith(".jsonl"):
            return self._records(file.path, lines)
        if file.whole:
            return iter([("".join(line for _, line in lines), None)])
        return ((line, None) for _, line in lines)

    def _records(self, path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str | None]]:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(
                    f"{path}:{number}: not a line of JSON ({error.msg}, column {error.colno})."
                ) from None
            if not isinstance(record, dict):
                raise UserError(f"{path}:{number}: not a JSON object with a field {self.field!r}.")
            yield pick(record, self.field, self.group_field, f"{path}:{number}")

    def _rows(self, path: Path) -> Iterator[tuple[str, str | None]]:
        from pyarrow import ArrowException, parquet  # takes long to import, and few corpora need it

        try:
            table = parquet.ParquetFile(path)
            names = table.schema_arrow.names
            columns = [name for name in (self.field, self.group_field) if name in names]
            number = 0
            for batch in table.iter_batches(batch_size=256, columns=columns):
                for record in batch.to_pylist():
                    number += 1
                    where = f"{path}, row {number}"
                    yield pick({name: record.get(name) for name in names}, self.field, self.group_field, where)
        except (ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read as a parquet file ({reason(error)}).") from error


def pick(record: dict[str, Any], field: str, group_field: str | None, where: str) -> tuple[str, str | None]:
    """Text and group of a record; no text (null) is an empty one, and null is no group.

    Raises:
        UserError: if a field is missing or the text is not text.
    """
    for name, key in ((field, "corpus.field"), (group_field, "corpus.group_field")):
        if name is not None and name not in record:
            raise UserError(f"{where}: there is no field {name!r}; {key} must be one of: {', '.join(record)}.")
    text = record[field]
    if not isinstance(text, str | None):
        raise UserError(f"{where}: field {field!r} is not text but {type(text).__name__}.")
    group = None if group_field is None else record[group_field]
    return text or "", None if group is None else str(group).split("/", 1)[0]


def _files(paths: Iterable[str], key: str) -> list[_File]:
    files: dict[Path, _File] = {}
    for pattern in paths:
        path = Path(pattern).expanduser()
        if path.is_dir():
            found = [inside for inside in sorted(path.rglob("*")) if _kind(inside) and inside.is_file()]
            if not found:
                raise UserError(f"{key}: no file in {path} ends in {', '.join(KINDS)}.")
        elif path.exists():
            found = [path]
        else:
            names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute ones)
            found = [Path(name) for name in names if Path(name).is_file()]
        if not found:
            raise UserError(f"{key}: there is no {path}{_nearest(path)}.")
        for name in found:
            files.setdefault(name, _checked(name, path.is_dir(), key))
    return list(files.values())


def _checked(path: Path, in_folder: bool, key: str) -> _File:
    kind = _kind(path)
    if kind is None:
        raise UserError(f"{key}: {path} must end in one of {', '.join(KINDS)}.")
    whole = in_folder and kind.startswith(".txt")
    if path.stat().st_size == 0 and not whole:
        raise UserError(f"{key}: {path} is empty.")
    return _File(path, kind, whole)


def _kind(path: Path) -> str | None:
    return next((kind for kind in KINDS if path.name.lower().endswith(kind)), None)


def _nearest(path: Path) -> str:
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file, gzipped or not."""
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


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
