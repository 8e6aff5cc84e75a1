"""Pairs of sentences: natural language inference, translations, and other pairs of one meaning.

Bowman et al. 2015 (SNLI), Williams et al. 2018 (MultiNLI); pairs whose annotators did not agree carry no class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from data.errors import UserError, reading
from data.sources.base import Example
from data.sources.reading import as_list, digest, find_files, lines
from data.sources.table import Row, Table

CLASSES = ("entailment", "neutral", "contradiction")
FILE_FIELDS = ("gold_label", "sentence1", "sentence2")  # of SNLI's and MultiNLI's files
HUB_FIELDS = ("label", "premise", "hypothesis")
LABELS = {label: number for number, name in enumerate(CLASSES) for label in (name, number, f"{number}")}


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
        if label in ("-", "-1", -1):
            return None
        if label not in LABELS:
            raise ValueError(f"{label} is none of {', '.join(CLASSES)}")
        return Example(tuple(texts), LABELS[label])


class Parallel(Table):
    """Sentences and their translations, or other pairs of one meaning (duplicate questions).

    They are from one of four places: ``source`` and ``target``, ``tsv``, ``path`` or ``dataset``. The rows of the
    latter two have a field for each language, or one called translation: {"translation": {"de": ..., "en": ...}}.
    Sentences with the same source are held out together.

    Args:
        source, target: files of one sentence a line, line by line translations of each other; ``.gz`` may follow.
        tsv: tab-separated files of one pair a line, without a header, as ``path``.
        columns: numbers of their source and target columns, from 1.
        languages: fields of source and target in rows.
        label: field that is 1 in rows of a pair ("is_duplicate"; of tsv its number); others are skipped. None: all
            are pairs.
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
        tsv: str | Sequence[str] | None = None,
        columns: tuple[int, int] = (1, 2),
        languages: tuple[str, str] = ("en", "de"),
        label: str | None = None,
        dev_source: str | None = None,
        dev_target: str | None = None,
        path: str | Sequence[str] | None = None,
        **table: Any,
    ) -> None:
        if [source, tsv, path, table.get("dataset")].count(None) != 3:
            raise UserError("set this, tsv, path or dataset, and only one of them", key="parallel.source")
        self.has_header = tsv is None
        self.fields = (*(languages if self.has_header else map(str, columns)), *as_list(label))
        self._targets: dict[Path, Path] = {}
        for pair in ({"source": source, "target": target}, {"dev_source": dev_source, "dev_target": dev_target}):
            with reading("pair of aligned files", "parallel.target"):
                files = (find_files(each, [".txt"], f"parallel.{key}") for key, each in pair.items())
                self._targets |= zip(*files, strict=True)
        super().__init__(path=source or tsv or path, dev_path=table.pop("dev_path", None) or dev_source, **table)
        self._names += [*as_list(target), *as_list(dev_target)]

    def example(self, row: Row) -> Example | None:
        translation = row if self.fields[0] in row else row["translation"]
        first, second, *label = (translation[name] or "" for name in self.fields)
        number = int(label[0] or 0) if label else 1
        if number not in (0, 1):
            raise ValueError(f"{self.fields[2]} is {number}, neither 0 nor 1")
        return Example((first, second)) if number else None

    def read_file(self, path: Path) -> Iterable[Row]:
        if target := self._targets.get(path):
            with reading("pair of aligned files", f"{path}, {target}"):
                for texts in zip(lines(path), lines(target), strict=True):
                    yield dict(zip(self.fields, texts, strict=True))
        elif self.has_header:
            yield from super().read_file(path)
        else:
            for line in filter(str.strip, lines(path)):
                yield dict(zip(map(str, count(1)), line.rstrip("\r\n").split("\t"), strict=False))

    def identity(self) -> Iterator[str]:
        yield from super().identity()
        yield from map(digest, self._targets.values())
