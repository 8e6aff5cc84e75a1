"""Text files as a corpus: .txt, .jsonl, .parquet, .csv and .tsv files, folders of them, globs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from data.errors import UserError, reading
from data.ranges import Count
from data.sources.base import Document, Part, Source
from data.sources.pydocs import Pydocs
from data.sources.reading import MOST_BYTES, digest, find_files, lines, parse_object, too_long

BOUND, LARGEST_BOUND = "corpus.max_bytes", 1 << 30
KINDS = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")  # of the files that are read from a folder
TABLES = {".csv": "excel", ".csv.gz": "excel", ".tsv": "tabs", ".tsv.gz": "tabs"}  # csv dialects of further kinds
RECORD: Final = "record"  # unit of files with fields
csv.register_dialect("tabs", delimiter="\t", quoting=csv.QUOTE_NONE)
Cut = Literal["file", "paragraph", "line"] | Count  # a number counts words


class _File(NamedTuple):
    path: Path
    kind: str
    unit: Cut | Literal["record"]  # what a document is


class Text(Source):
    """Documents in files.

    Each line of a .jsonl file is an object whose ``field`` is a document; so is a row of a .parquet, .csv or .tsv
    file. Of the latter two, the first row names the columns; a .csv file has commas and may have quotes, a .tsv
    file has tabs and no quotes. ``.gz`` may follow all of these but ``.parquet``.

    Args:
        path: a file, a folder (with all .txt, .jsonl and .parquet files in it), a glob, or a list of these; ``~``
            is the home folder.
        document: what a document is in a .txt file: the file, a paragraph (blank lines separate them), a line, or
            a number of words (the last one of a file may have fewer); None: a line, but in a folder a file.
        field: name of the text's field.
        group_field: name of the field whose part before "/" names documents that belong together (with ids like
            "book/0012": the book), so that the split keeps them in one part.
        dev_path: files of the held-out documents; then nothing of ``path`` is held out.
        pydocs: whether the corpus ``pydocs`` is read in addition, split as it is on its own.
        max_bytes: bytes of a line or .txt document, characters of a row; a longer one is refused.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if a path is missing or of another kind; while reading, if a file is not what its ending says.
    """

    name = "text"

    def __init__(
        self,
        *,
        path: str | Sequence[str],
        document: Cut | None = None,
        field: str = "text",
        group_field: str | None = None,
        dev_path: str | Sequence[str] | None = None,
        pydocs: bool = False,
        max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BOUND)] = MOST_BYTES,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.path = [path] if isinstance(path, str) else list(path)
        self.field = field
        self.group_field = group_field
        self.max_bytes = max_bytes
        held_out = _files(dev_path, document, "corpus.dev_path")
        paths = {file.path for file in held_out}
        files = [file for file in _files(self.path, document, "corpus.path") if file.path not in paths]
        if not files:
            raise UserError("no file is left beside those of dev_path", key="corpus.path")
        part: Part | None = "train" if held_out else None
        self._files: list[tuple[_File, Part | None]] = [(file, part) for file in files]
        self._files += [(file, "dev") for file in held_out]
        self._pydocs = Pydocs() if pydocs else None
        self._size = sum(file.path.stat().st_size for file, _ in self._files)
        self._bytes_before = self._bytes_of_file = 0  # read of earlier files, and of the current one

    def documents(self) -> Iterator[Document]:
        self._bytes_before = self._bytes_of_file = 0
        for file, part in self._files:
            for text, group in self._read(file):
                yield Document(text, group, part)
            self._bytes_before += file.path.stat().st_size
            self._bytes_of_file = 0
        if self._pydocs is not None:
            yield from self._pydocs.documents()

    def identity(self) -> Iterator[str | bytes]:
        yield f"{self.field} {self.group_field}"
        for file, part in self._files:
            # "True" and "False", so that stores of earlier versions are found.
            unit = {"file": "True", "line": "False", RECORD: "False"}.get(str(file.unit), file.unit)
            yield f"{file.kind} {unit} {part} {digest(file.path)}"
        if self._pydocs is not None:
            yield from self._pydocs.identity()

    def describe(self) -> dict[str, Any]:
        where = [*self.path, *(["pydocs"] if self._pydocs is not None else [])]
        return {"name": self.name, "where": ", ".join(where), "licence": None}

    @property
    def document_units(self) -> tuple[str | int, ...]:
        units = tuple(dict.fromkeys(file.unit for file, _ in self._files))
        return () if self._pydocs is not None or RECORD in units else units

    @property
    def share_read(self) -> float | None:
        if self._pydocs is not None:
            return None
        return (self._bytes_before + self._bytes_of_file) / max(1, self._size)

    def _read(self, file: _File) -> Iterator[tuple[str, str | None]]:
        if file.kind == ".parquet":
            return self._rows(file.path)
        numbered = lines(file.path, self.max_bytes, BOUND, partial(setattr, self, "_bytes_of_file"))
        if file.kind.startswith(".jsonl"):
            return self._records(file.path, numbered)
        if file.kind in TABLES:
            return self._table(file, numbered)
        if file.unit == "line":
            return ((line, None) for _, line in numbered)
        return ((text, None) for text in self._joined(file, numbered))

    def _joined(self, file: _File, numbered: Iterable[tuple[int, str]]) -> Iterator[str]:
        """Yields the documents of a .txt file that are not lines: the file, its paragraphs, or runs of words."""
        parts: list[str] = []
        words = size = 0
        for _, line in numbered:
            pieces = re.findall(r"\s*\S+\s*|\s+", line) if isinstance(file.unit, int) else [line]
            for piece in pieces:
                parts.append(piece)
                words += not piece.isspace()  # in a paragraph, lines
                size += len(piece.encode())
                if size > self.max_bytes:
                    raise too_long(str(file.path), self.max_bytes, BOUND)
                if words == file.unit or (words and file.unit == "paragraph" and piece.isspace()):
                    yield "".join(parts)
                    parts, words, size = [], 0, 0
        if words or file.unit == "file":
            yield "".join(parts)

    def _table(self, file: _File, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str | None]]:
        csv.field_size_limit(LARGEST_BOUND)
        rows = csv.reader((line for _, line in numbered), TABLES[file.kind], strict=True)
        header: list[str] = []
        with reading(f"{file.kind} file", file.path):
            for row in rows:
                where = f"{file.path}:{rows.line_num}"
                if not header:
                    header = row
                elif row and len(row) != len(header):
                    raise UserError(f"{len(row)} columns, and the header has {len(header)}", key=where)
                elif row:
                    record = dict(zip(header, row, strict=True))
                    yield pick(record, self.field, self.group_field, where, self.max_bytes)

    def _records(self, path: Path, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str | None]]:
        for number, line in numbered:
            if not line.strip():
                continue
            where = f"{path}:{number}"
            yield pick(parse_object(line, where), self.field, self.group_field, where, self.max_bytes)

    def _rows(self, path: Path) -> Iterator[tuple[str, str | None]]:
        from pyarrow import parquet  # takes long to import, and few corpora need it

        with reading("parquet file", path):
            table = parquet.ParquetFile(path)
            pick(dict.fromkeys(table.schema_arrow.names), self.field, self.group_field, str(path))
            columns = list(filter(None, (self.field, self.group_field)))
            batches = table.iter_batches(batch_size=64, columns=columns)  # of long documents; bounds memory
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                yield pick(row, self.field, self.group_field, f"{path}, row {number}", self.max_bytes)


def pick(
    record: dict[str, Any], field: str, group_field: str | None, where: str, most: int = MOST_BYTES
) -> tuple[str, str | None]:
    """Returns text and group of a record; null as text is "", null as group is None.

    Raises:
        UserError: if a field is missing, or the text is not text or longer than ``most``.
    """
    for name, key in ((field, "corpus.field"), (group_field, "corpus.group_field")):
        if name is not None and name not in record:
            raise UserError(f"{where} has no field {name!r}, but {', '.join(record)}", key=key)
    text = record[field]
    if not isinstance(text, str | None):
        raise UserError(f"field {field!r} is not text but of type {type(text).__name__}", key=where)
    if text is not None and len(text) > most:
        raise too_long(where, most, BOUND, "characters")
    group = None if group_field is None else record[group_field]
    return text or "", None if group is None else str(group).split("/", 1)[0]


def _files(paths: str | Sequence[str] | None, document: Cut | None, key: str) -> list[_File]:
    files: dict[Path, _File] = {}
    for pattern in [paths] if isinstance(paths, str) else paths or []:
        unit = document or ("file" if Path(pattern).expanduser().is_dir() else "line")
        for path in find_files(pattern, KINDS, key):
            known = (*KINDS, *TABLES)
            kind = next((kind for kind in known if path.name.lower().endswith(kind)), None)
            if kind is None:
                raise UserError(f"{path} must end in one of {', '.join(known)}", key=key)
            files.setdefault(path, _File(path, kind, unit if kind.startswith(".txt") else RECORD))
    return list(files.values())
