"""Sources whose examples are rows with named fields: of files, or of a data set of the Hugging Face hub.

Files are read by Python's readers and pyarrow's, which have the first row within 0.7 s. ``datasets`` takes seconds
to import, and is used for the hub only.
"""

from __future__ import annotations

import csv
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from data.errors import UserError, reading
from data.sources.base import Example, Part, Source
from data.sources.hub import find_commit, stream_rows
from data.sources.reading import as_list, digest, file_kind, find_files, lines

Row = dict[str, Any]
Rows = Iterable[tuple[str, Row]]  # each with its place for messages: file and line
csv.register_dialect("tabs", delimiter="\t", quoting=csv.QUOTE_NONE)
csv.field_size_limit(1 << 30)  # a document may be longer than the default, 128 KiB


class Table(Source):
    """Base of sources of rows.

    Each line of a .jsonl or .json file is an object. The first row of a .csv or .tsv file names the columns; a
    .csv file has commas and may have quotes, a .tsv file has tabs and no quotes. ``.gz`` may follow the ending.

    Args:
        path: a file, a folder, a glob, or a list of these.
        dev_path: held-out files, as ``path``; then nothing else is held out.
        dataset: instead of ``path``, a data set of the Hugging Face hub; no code of it is run.
        subset: name of the data set's configuration, where there are several.
        split: name of the split that is read.
        dev_split: the split that is held out; then nothing else is held out.
        files: path or glob of the data set's files that are read, where it has no configurations.
        revision: branch, tag or commit; the commit behind it is part of the fingerprint.
        fraction, dev_fraction, lowercase: see Source.

    Attributes:
        section: first part of the configuration's keys, for messages.
        fields: names of the fields that are read.
        kinds: endings of the files that are read from a folder.

    Raises:
        UserError: if both or none of ``path`` and ``dataset`` are given, a path is missing, or the hub cannot be
            reached; while reading, if a file is not what its ending says, or a field is missing.
    """

    section: str
    fields: tuple[str, ...]
    kinds: tuple[str, ...] = (".jsonl", ".json", ".csv", ".tsv", ".parquet")

    def __init__(
        self,
        *,
        path: str | Sequence[str] | None = None,
        dev_path: str | Sequence[str] | None = None,
        dataset: str | None = None,
        subset: str | None = None,
        split: str = "train",
        dev_split: str | None = None,
        files: str | None = None,
        revision: str | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        if (path is None) == (dataset is None):
            raise UserError("set this or dataset, and only one of them", key=f"{self.section}.path")
        self.dataset, self.subset, self.files, self.revision = dataset, subset, files, revision
        self._paths = [*as_list(path), *as_list(dev_path)]
        part: Part | None = None if dev_path is None and dev_split is None else "train"
        held_out = find_files(dev_path, self.kinds, f"{self.section}.dev_path")
        train = [file for file in find_files(path, self.kinds, f"{self.section}.path") if file not in held_out]
        if path is not None and not train:
            raise UserError("no file is left beside those of dev_path", key=f"{self.section}.path")
        self._files: list[tuple[Path, Part | None]] = [(file, part) for file in train]
        self._files += [(file, "dev") for file in held_out]
        self._splits: list[tuple[str, Part | None]] = [(split, part)] if dataset else []
        self._splits += [(dev_split, "dev")] if dev_split else []

        self._size = sum(file.stat().st_size for file, _ in self._files)
        self._earlier = self._position = 0  # bytes read of earlier files, and of the current one

    @abstractmethod
    def example(self, row: Row) -> Example | None:
        """Returns the example in a row; None if it is skipped."""

    @cached_property
    def commit(self) -> str:
        """The commit behind ``revision``, whose files are read."""
        return find_commit(str(self.dataset), self.revision, f"{self.section}.dataset")

    def examples(self) -> Iterator[Example]:
        for split, part in self._splits:
            options = {"name": self.subset, "data_files": self.files, "split": split, "revision": self.commit}
            rows: Rows = stream_rows(str(self.dataset), f"{self.section}.dataset", **options)
            yield from (example._replace(part=part) for example in self.read_rows(rows))
        self._earlier = 0
        for path, part in self._files:
            self._position = 0
            yield from (example._replace(part=part) for example in self.read_rows(self.read_file(path)))
            self._earlier += path.stat().st_size
        self._position = 0

    def read_rows(self, rows: Rows) -> Iterator[Example]:
        """Yields the examples in the rows of a file or split."""
        for where, row in rows:
            with reading(f"row with the fields {', '.join(self.fields)}", where):
                example = self.example(row)
                if example and not all(isinstance(text, str) for text in example.texts):
                    raise TypeError("a field is not text")
            if example:
                yield example

    @property
    def share_read(self) -> float | None:
        return (self._earlier + self._position) / self._size if self._size else None

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yields numbered lines of a text file, and counts the bytes that are read."""
        return lines(path, partial(setattr, self, "_position"))

    def read_file(self, path: Path) -> Rows:
        """Yields the rows of a file."""
        kind = file_kind(path)
        with reading(f"{kind} file", path):
            if kind == ".parquet":
                from pyarrow import parquet  # takes long to import, and few corpora need it

                batches = parquet.ParquetFile(path).iter_batches(batch_size=64, columns=list(self.fields))
                rows = (row for batch in batches for row in batch.to_pylist())  # long documents fit into memory
                yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))
            elif kind in (".jsonl", ".json"):
                for number, line in self.lines(path):
                    if line.strip():
                        with reading("JSON object", f"{path}:{number}"):
                            row = dict(json.loads(line))
                        yield f"{path}:{number}", row
            else:
                dialect = "excel" if kind == ".csv" else "tabs"
                table = csv.reader((line for _, line in self.lines(path)), dialect, strict=True)
                header = next(table, [])
                for cells in filter(None, table):
                    where = f"{path}:{table.line_num}"
                    with reading("row under the header", where):
                        row = dict(zip(header, cells, strict=True))
                    yield where, row

    def identity(self) -> Iterator[str]:
        yield f"{self.fields}"
        for split, part in self._splits:
            yield f"{self.dataset} {self.subset} {split} {self.files} {self.commit} {part}"
        for path, part in self._files:
            yield f"{file_kind(path)} {part} {digest(path)}"

    def describe(self) -> dict[str, Any]:
        names = filter(None, (self.dataset, self.subset))
        hub = [f"Hugging Face hub: {' '.join(names)}, revision {self.commit}"] if self.dataset else []
        return {"name": self.dataset or self.name, "where": ", ".join(hub + self._paths), "licence": None}

    def pinned(self) -> dict[str, Any]:
        return {"revision": self.commit} if self.dataset else {}  # a branch may move
