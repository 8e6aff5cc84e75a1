"""Pairs of sentences: natural language inference, and translations.

Bowman et al. 2015 (SNLI), Williams et al. 2018 (MultiNLI); pairs whose annotators did not agree carry no class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from data.errors import UserError, reading
from data.ranges import Size
from data.sources.base import Example
from data.sources.reading import aligned_lines, as_list, digest, find_files, lines
from data.sources.table import Row, Rows, Table

CLASSES = ("entailment", "neutral", "contradiction")
NO_CLASS = "without a class"  # a reason in ``skipped``
FILE_FIELDS = ("gold_label", "sentence1", "sentence2")  # of SNLI's and MultiNLI's files
HUB_FIELDS = ("label", "premise", "hypothesis")
LABELS = {label: number for number, name in enumerate(CLASSES) for label in (name, number)}
TWO = Field(min_length=2, max_length=2)


class Inference(Table):
    """Premises and hypotheses in three classes.

    Rows have the fields gold_label, sentence1 and sentence2, or label, premise and hypothesis. A label is a name
    in ``CLASSES`` or its number. A .txt file is read as a .tsv file, as SNLI's and MultiNLI's are written. Pairs
    without a class ("-", -1) are skipped, and pairs of one premise are held out together.

    Args:
        path, dev_path, dataset, subset, split, dev_split, files, revision: see Table; data sets of the hub are
            "stanfordnlp/snli" and "nyu-mll/multi_nli".
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: as Table; while reading, if a label is no class.
    """

    name = section = "inference"
    columns = 2
    classes = CLASSES
    fields = (*FILE_FIELDS, *HUB_FIELDS)
    kinds = (*Table.kinds, ".txt")

    def example(self, row: Row) -> Example | None:
        label, *texts = (row[name] for name in (FILE_FIELDS if "gold_label" in row else HUB_FIELDS))
        if label in ("-", -1):
            self.skipped[NO_CLASS] += 1
            return None
        return Example(tuple(texts), LABELS[label])


class Parallel(Table):
    """Sentences and their translations.

    They are from one of four places: ``source`` and ``target``, ``tsv``, ``path`` or ``dataset``. The rows of the
    latter two have a field for each language, or one called translation: {"translation": {"de": ..., "en": ...}}.
    Sentences with the same source are held out together.

    Args:
        source, target: files of one sentence a line, line by line translations of each other; ``.gz`` may follow.
        tsv: a tab-separated file of one pair a line, without a header; ``.gz`` may follow.
        columns: numbers of its source and target columns, from 1.
        languages: fields of source and target in rows.
        dev_source, dev_target: held-out pairs, as ``source`` and ``target``; then nothing else is held out.
        path, dev_path, dataset, subset, split, dev_split, files, revision: see Table; a data set of the hub is
            "wmt/wmt14".
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: as Table; while reading, if two files do not have the same number of lines.
    """

    name = section = "parallel"
    columns = 2

    def __init__(
        self,
        *,
        source: str | None = None,
        target: str | None = None,
        tsv: str | None = None,
        columns: Annotated[Sequence[Size], TWO] = (1, 2),
        languages: Annotated[Sequence[str], TWO] = ("en", "de"),
        dev_source: str | None = None,
        dev_target: str | None = None,
        path: str | Sequence[str] | None = None,
        dev_path: str | Sequence[str] | None = None,
        **table: Any,
    ) -> None:
        if [source, tsv, path, table.get("dataset")].count(None) != 3:
            raise UserError("set this, tsv, path or dataset, and only one of them", key="parallel.source")
        if (source is None) != (target is None) or (dev_source is None) != (dev_target is None):
            raise UserError("source and target go together", key="parallel.target")
        super().__init__(path=source or tsv or path, dev_path=dev_source or dev_path, **table)
        self.tsv_columns = None if tsv is None else tuple(columns)
        self.fields = tuple(languages)
        targets = find_files(target, (), "parallel.target") + find_files(dev_target, (), "parallel.dev_target")
        with reading("group of aligned files", "parallel.target"):
            sources = [file for file, part in self._files if source or (part == "dev" and dev_source)]
            self._targets = dict(zip(sources, targets, strict=True))
        self._paths += [*as_list(target), *as_list(dev_target)]

    def example(self, row: Row) -> Example:
        translation = row.get("translation", row)
        return Example(tuple(translation[language] or "" for language in self.fields))

    def read_file(self, path: Path) -> Rows:
        if path in self._targets:
            pairs = aligned_lines(path, self._targets[path])
            return ((str(path), dict(zip(self.fields, pair, strict=True))) for pair in pairs)
        return super().read_file(path) if self.tsv_columns is None else self._read_tsv(path, self.tsv_columns)

    def identity(self) -> Iterator[str]:
        yield f"{self.tsv_columns}"
        yield from super().identity()
        yield from map(digest, self._targets.values())

    def _read_tsv(self, path: Path, columns: tuple[int, ...]) -> Rows:
        for number, line in lines(path):
            cells = line.rstrip("\r\n").split("\t")
            with reading(f"line of tab-separated columns, {columns} of which are read", f"{path}:{number}"):
                row = {name: cells[column - 1] for name, column in zip(self.fields, columns, strict=True)}
            yield f"{path}:{number}", row
