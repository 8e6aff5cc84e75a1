"""Sources whose examples are rows with named fields: of files, or of a data set of the Hugging Face hub.

Files are read by Python's readers and pyarrow's, which have the first row within 0.7 s. ``datasets`` takes seconds
to import, and is used for the hub only; it streams rows, and no code of a data set is run.
"""

from __future__ import annotations

import csv
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import huggingface_hub

from data.errors import UserError, reading
from data.sources.base import Example, Part, Source
from data.sources.reading import as_list, digest, file_kind, find_files, lines

Row = dict[str, Any]
ASK_SECONDS = 5.0  # for the hub's answer to a question
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
        path_key: the second part of that of ``path``.
        fields: names of the fields that are read.
        kinds: endings of the files that are read from a folder.

    Raises:
        UserError: if both or none of ``path`` and ``dataset`` are given, a path is missing, or the hub cannot be
            reached; while reading, if a file is not what its ending says, or a field is missing.
    """

    section: str
    path_key = "path"
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
        key = f"{self.section}.{self.path_key}"
        if (path is None) == (dataset is None):
            raise UserError("set this or dataset, and only one of them", key=key)
        self.dataset, self.subset, self.files, self.revision = dataset, subset, files, revision
        self._names = [*as_list(path), *as_list(dev_path)]
        result = find_files(path, self.kinds, key)
        held_out: list[Path | str] = [*find_files(dev_path, self.kinds, f"{self.section}.dev_path")]
        held_out += as_list(dev_split)  # a str is a split of the data set
        train = [split] if dataset else [file for file in result if file not in held_out]
        part: Part | None = "train" if held_out else None
        self._places: list[tuple[Path | str, Part | None]] = [(place, part) for place in train]
        self._places += [(place, "dev") for place in held_out]

    @abstractmethod
    def example(self, row: Row) -> Example | None:
        """Returns the example in a row; None if it is skipped."""

    @cached_property
    def commit(self) -> str:
        """The commit behind ``revision``, whose files are read."""
        if self.revision and re.fullmatch("[0-9a-f]{40}", self.revision):
            return self.revision
        with reading(f"data set of the hub: {self.dataset}", f"{self.section}.dataset"):
            return str(
                huggingface_hub.HfApi()
                .dataset_info(str(self.dataset), revision=self.revision, timeout=ASK_SECONDS)
                .sha
            )

    def examples(self) -> Iterator[Example]:
        for place, part in self._places:
            yield from (example._replace(part=part) for example in self.read_place(place))

    def read_place(self, place: Path | str) -> Iterator[Example]:
        """Yields the examples of a file or split."""
        rows = iter(self.read_file(place) if isinstance(place, Path) else self._read_split(place))
        for number in count(1):
            with reading(f"row with the fields {', '.join(self.fields)}", f"{place}, row {number}"):
                if (row := next(rows, None)) is None:
                    return
                try:
                    example = self.example(row)
                except KeyError as error:
                    raise LookupError(f"no {error}; it has {', '.join(row)}") from error
                if example and not all(isinstance(text, str) for text in example.texts):
                    raise TypeError("a field is not text")
            if example:
                yield example

    def _read_split(self, split: str) -> Iterator[Row]:
        options = {"name": self.subset, "data_files": self.files, "split": split, "revision": self.commit}
        with reading(f"data set of the hub: {self.dataset}", f"{self.section}.dataset"):
            import datasets  # takes seconds to import

            yield from datasets.load_dataset(self.dataset, streaming=True, **options)

    def read_file(self, path: Path) -> Iterable[Row]:
        """Yields the rows of a file."""
        kind, text = file_kind(path), lines(path)
        if kind == ".parquet":
            from pyarrow import parquet  # takes long to import, and few corpora need it

            columns = [*self.fields, "translation"]  # those that are not there are ignored
            # Small batches, so that long documents fit into memory.
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=64, columns=columns):
                yield from batch.to_pylist()
        elif kind in (".jsonl", ".json"):
            yield from (dict(json.loads(line)) for line in text if line.strip())
        else:
            split = (line.rstrip("\r\n").split("\t") for line in text if line.strip())
            table = filter(None, csv.reader(text, strict=True) if kind == ".csv" else split)
            header = next(table, [])
            yield from (dict(zip(header, cells, strict=True)) for cells in table)

    def identity(self) -> Iterator[str]:
        yield f"{self.fields}"
        for place, part in self._places:
            if isinstance(place, Path):
                yield f"{file_kind(place)} {part} {digest(place)}"
            else:
                yield f"{self.dataset} {self.subset} {place} {self.files} {self.commit} {part}"

    def describe(self) -> dict[str, Any]:
        hub = [f"Hugging Face hub: {self.dataset}", self.subset, f"revision {self.commit}"] if self.dataset else []
        where = ", ".join(filter(None, [*hub, *self._names]))
        return {"name": self.dataset or self.name, "where": where, "licence": None}

    def pinned_settings(self) -> dict[str, Any]:
        return {"revision": self.commit} if self.dataset else {}  # a branch may move
