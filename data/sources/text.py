"""Text files as a corpus: .txt, .jsonl and .parquet files, folders of them, globs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from data.errors import UserError, readable, reason
from data.ranges import Below1, Factor
from data.sources.base import Document, Part, Source
from data.sources.pydocs import Pydocs
from data.sources.reading import MOST_BYTES, digest, lines, located, parsed, too_long

BOUND, LARGEST_BOUND = "corpus.max_bytes", 1 << 30
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
        max_bytes: bytes of a line, and of a file that is one document; a longer one is refused.
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
        field: str = "text",
        group_field: str | None = None,
        dev_path: str | Sequence[str] | None = None,
        pydocs: bool = False,
        max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BOUND)] = MOST_BYTES,
        fraction: Factor = 1.0,
        dev_fraction: Below1 = 0.05,
        lowercase: bool = False,
    ) -> None:
        super().__init__(fraction=fraction, dev_fraction=dev_fraction, lowercase=lowercase)
        self.path = [path] if isinstance(path, str) else list(path)
        self.field = field
        self.group_field = group_field
        self.max_bytes = max_bytes
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
            yield f"{file.kind} {file.whole} {part} {digest(file.path)}"
        if self._pydocs is not None:
            yield from self._pydocs.identity()

    def describe(self) -> dict[str, Any]:
        where = [*self.path, *(["pydocs"] if self._pydocs is not None else [])]
        return {"name": self.name, "where": ", ".join(where), "licence": None}

    def _read(self, file: _File) -> Iterator[tuple[str, str | None]]:
        if file.kind == ".parquet":
            return self._rows(file.path)
        numbered = lines(file.path, self.max_bytes, BOUND)
        if file.kind.startswith(".jsonl"):
            return self._records(file.path, numbered)
        if file.whole:
            return iter([(self._whole(file.path, numbered), None)])
        return ((line, None) for _, line in numbered)

    def _whole(self, path: Path, numbered: Iterable[tuple[int, str]]) -> str:
        parts, size = [], 0
        for _, line in numbered:
            parts.append(line)
            size += len(line.encode())
            if size > self.max_bytes:
                raise too_long(str(path), "document", self.max_bytes, BOUND)
        return "".join(parts)

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
            for name in columns:  # a nested value has no bound
                if types.is_nested(table.schema_arrow.field(name).type):
                    raise UserError(f"{path}: field {name!r} is not text but nested.")
            for batch in table.iter_batches(batch_size=32, columns=columns):  # of texts at the bound, 200 MB
                for record in batch.to_pylist():
                    number += 1
                    where = f"{path}, row {number}"
                    found = {name: record.get(name) for name in names}
                    yield pick(found, self.field, self.group_field, where, self.max_bytes)
        except (ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read as a parquet file ({reason(error)}).") from error


def pick(
    record: dict[str, Any], field: str, group_field: str | None, where: str, most: int = MOST_BYTES
) -> tuple[str, str | None]:
    """Text and group of a record; no text (null) is an empty one, and null is no group.

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
        raise too_long(where, "text", most, BOUND)
    group = None if group_field is None else record[group_field]
    if isinstance(group, list | dict):
        raise UserError(f"{where}: field {group_field!r} is not a name but {type(group).__name__}.")
    return text or "", None if group is None else str(group).split("/", 1)[0]


def _files(paths: Iterable[str], key: str) -> list[_File]:
    files: dict[Path, _File] = {}
    for pattern in paths:
        in_folder = Path(pattern).expanduser().is_dir()
        for name in located(pattern, KINDS, key):
            files.setdefault(name, _checked(name, in_folder, key))
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
