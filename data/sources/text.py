"""Text files as a corpus: .txt, .jsonl, .parquet, .csv and .tsv files, folders of them, globs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from data.errors import UserError, readable, reason
from data.ranges import Count
from data.sources.base import Document, Part, Source
from data.sources.pydocs import Pydocs
from data.sources.reading import MOST_BYTES, digest, lines, listed, located, parsed, too_long

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
        ValueError: if a value is out of its range.
        UserError: if a path is missing, or a file is empty, binary or not what its ending says.
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
        self.path = listed(path)
        self.field = field
        self.group_field = group_field
        self.max_bytes = max_bytes
        with readable("corpus.path"):
            held_out = _files(listed(dev_path), document, "corpus.dev_path")
            paths = {file.path for file in held_out}
            files = [file for file in _files(self.path, document, "corpus.path") if file.path not in paths]
        if not files:
            raise UserError("corpus.path: no file is left beside those of corpus.dev_path.")
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
                    raise too_long(str(file.path), "document", self.max_bytes, BOUND)
                if words == file.unit or (words and file.unit == "paragraph" and piece.isspace()):
                    yield "".join(parts)
                    parts, words, size = [], 0, 0
        if words or file.unit == "file":
            yield "".join(parts)

    def _table(self, file: _File, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str | None]]:
        begun = number = size = 0

        def counted() -> Iterator[str]:
            nonlocal begun, number, size
            for number, line in numbered:
                begun = begun if size else number
                size += len(line)
                if size > self.max_bytes:  # quotes may go on over many lines
                    where = f"{file.path}:{begun}"
                    raise too_long(where, "row that begins here", self.max_bytes, BOUND, "characters")
                yield line

        csv.field_size_limit(max(csv.field_size_limit(), LARGEST_BOUND))  # ``counted`` has the limit
        header: list[str] = []
        try:
            for row in csv.reader(counted(), TABLES[file.kind], strict=True):
                size = 0
                where = f"{file.path}:{begun}"
                if not header:
                    header = row
                elif row and len(row) != len(header):
                    raise UserError(f"{where}: the header has {len(header)} columns, and this row has {len(row)}.")
                elif row:
                    record = dict(zip(header, row, strict=True))
                    yield pick(record, self.field, self.group_field, where, self.max_bytes)
        except csv.Error as error:
            raise UserError(f"{file.path}:{number}: not a row of a {file.kind} file ({reason(error)}).") from None

    def _records(self, path: Path, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str | None]]:
        for number, line in numbered:
            if not line.strip():
                continue
            where = f"{path}:{number}"
            record = parsed(line, where, f"a field {self.field!r}")
            yield pick(record, self.field, self.group_field, where, self.max_bytes)

    def _rows(self, path: Path) -> Iterator[tuple[str, str | None]]:
        from pyarrow import ArrowException, parquet, types  # takes long to import, and few corpora need it

        try:
            table = parquet.ParquetFile(path)
            names = table.schema_arrow.names
            columns = [name for name in (self.field, self.group_field) if name in names]
            number = 0
            for name in columns:
                if names.count(name) > 1:
                    raise UserError(f"{path} has {names.count(name)} fields {name!r}.")
                # the size of a nested value has no bound
                if types.is_nested(table.schema_arrow.field(name).type):
                    raise UserError(f"{path}: field {name!r} is not text but nested.")
            # Texts at the bound take 50 MB, besides pyarrow's unpacked pages.
            for batch in table.iter_batches(batch_size=8, columns=columns):
                for row in range(batch.num_rows):  # one by one: a batch may hold one long text many times
                    number += 1
                    found = {name: batch[name][row].as_py() if name in columns else None for name in names}
                    where = f"{path}, row {number}"
                    yield pick(found, self.field, self.group_field, where, self.max_bytes)
        except (ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read as a parquet file ({reason(error)}).") from error


def pick(
    record: dict[str, Any], field: str, group_field: str | None, where: str, most: int = MOST_BYTES
) -> tuple[str, str | None]:
    """Returns text and group of a record; null as text is "", null as group is None.

    Raises:
        UserError: if a field is missing, the text is not text or longer than ``most``, or the group is no name.
    """
    for name, key in ((field, "corpus.field"), (group_field, "corpus.group_field")):
        if name is not None and name not in record:
            raise UserError(f"{where}: there is no field {name!r}; {key} must be one of: {', '.join(record)}.")
    text = record[field]
    if not isinstance(text, str | None):
        raise UserError(f"{where}: field {field!r} is not text but {type(text).__name__}.")
    if text is not None and len(text) > most:
        raise too_long(where, "text", most, BOUND, "characters")
    group = None if group_field is None else record[group_field]
    if isinstance(group, list | dict):
        raise UserError(f"{where}: field {group_field!r} is not a name but {type(group).__name__}.")
    return text or "", None if group is None else str(group).split("/", 1)[0]


def _files(paths: Iterable[str], document: Cut | None, key: str) -> list[_File]:
    files: dict[Path, _File] = {}
    for pattern in paths:
        unit = document or ("file" if Path(pattern).expanduser().is_dir() else "line")
        for name in located(pattern, KINDS, key):
            files.setdefault(name, _checked(name, unit, key))
    return list(files.values())


def _checked(path: Path, cut: Cut, key: str) -> _File:
    known = (*KINDS, *TABLES)
    kind = next((kind for kind in known if path.name.lower().endswith(kind)), None)
    if kind is None:
        raise UserError(f"{key}: {path} must end in one of {', '.join(known)}.")
    unit: Cut | Literal["record"] = cut if kind.startswith(".txt") else RECORD
    if path.stat().st_size == 0 and unit != "file":
        raise UserError(f"{key}: {path} is empty.")
    return _File(path, kind, unit)
