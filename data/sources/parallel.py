"""Sentences and their translations, from two line-aligned files, a tab-separated one, or a data set of the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from data.errors import UserError
from data.pairs import EMPTY, Pair, PairSource
from data.ranges import Below1, Size
from data.sources.base import Part
from data.sources.hub import HubRows
from data.sources.reading import aligned_lines, digest, find_file, lines

TWO = Field(min_length=2, max_length=2)

KINDS = (".txt", ".txt.gz", ".tsv", ".tsv.gz", ".gz")
INSTEAD = "two line-aligned files (parallel.source, parallel.target) need no network"


class Parallel(PairSource):
    """Translated sentences, whose source is encoded.

    They are from one of three places: ``source`` and ``target``, ``tsv``, or ``dataset``. Pairs with an empty
    side are left out and counted. Sentences with the same source are held out together.

    Args:
        source, target: files of one sentence a line, line by line translations of each other; ``.gz`` may follow.
        tsv: a tab-separated file of one pair a line, without a header; ``.gz`` may follow.
        columns: numbers of its source and target columns, from 1.
        dataset: a data set of the Hugging Face hub, as "wmt/wmt14", whose rows are {"translation": {"de": ...,
            "en": ...}}; no code of it is run.
        subset: name of the configuration ("de-en").
        split: name of the split.
        dev_split: the split that is held out; then nothing else is held out.
        languages: codes of source and target in the rows.
        revision: branch, tag or commit.
        dev_source, dev_target: held-out pairs, as ``source`` and ``target``; then nothing else is held out.
        dev_fraction: see PairSource.

    Raises:
        UserError: if not exactly one place of the pairs is given, a file is missing, or the hub cannot be reached;
            while reading, if the two files do not have the same number of lines.
    """

    name = "parallel"

    def __init__(
        self,
        *,
        source: str | None = None,
        target: str | None = None,
        tsv: str | None = None,
        columns: Annotated[Sequence[Size], TWO] = (1, 2),
        dataset: str | None = None,
        subset: str | None = None,
        split: str = "train",
        dev_split: str | None = None,
        languages: Annotated[Sequence[str], TWO] = ("en", "de"),
        revision: str | None = None,
        dev_source: str | None = None,
        dev_target: str | None = None,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(dev_fraction=dev_fraction)
        for prefix, one, other in ("", source, target), ("dev_", dev_source, dev_target):
            if (one is None) != (other is None):
                raise UserError(f"goes together with {prefix}target", key=f"parallel.{prefix}source")
        if [source, tsv, dataset].count(None) != 2:
            raise UserError("set this (with target), tsv or dataset, and only one of them", key="parallel.source")
        if dev_split is not None and (dataset is None or dev_source is not None):
            raise UserError("is for a dataset without dev_source", key="parallel.dev_split")
        self.columns = tuple(columns)
        self.languages = tuple(languages)
        held_out = dev_source is not None or dev_split is not None
        part: Part | None = "train" if held_out else None
        self._tsv = None if tsv is None else find_file(tsv, KINDS, "parallel.tsv")
        self._aligned: list[tuple[Path, Path, Part | None]] = []
        if source is not None and target is not None:
            both = find_file(source, KINDS, "parallel.source"), find_file(target, KINDS, "parallel.target")
            self._aligned.append((*both, part))
        if dev_source is not None and dev_target is not None:
            first = find_file(dev_source, KINDS, "parallel.dev_source")
            self._aligned.append((first, find_file(dev_target, KINDS, "parallel.dev_target"), "dev"))
        self._part = part
        options = {"subset": subset, "revision": revision, "setting": self.name, "instead": INSTEAD}
        self._rows = HubRows.parts(dataset, split, dev_split, part, **options)

    def pairs(self) -> Iterator[Pair]:
        if self._tsv is not None:
            yield from self._table(self._tsv)
        for rows, part in self._rows:
            yield from self._hub(rows, part)
        for source, target, part in self._aligned:
            for _, (one, other) in aligned_lines(source, target):
                yield Pair((one,), other, part)

    def identity(self) -> Iterator[str]:
        if self._tsv is not None:
            yield f"{self.columns} {self._part} {digest(self._tsv)}"
        for rows, part in self._rows:
            yield f"{rows.identity()} {self.languages} {part}"
        for source, target, part in self._aligned:
            yield f"{digest(source)} {digest(target)} {part}"

    def describe(self) -> dict[str, Any]:
        files = [] if self._tsv is None else [self._tsv]
        files += [path for source, target, _ in self._aligned for path in (source, target)]
        names = [rows.where() for rows, _ in self._rows[:1]] + list(map(str, files))
        return {"name": self.name, "where": ", ".join(names), "licence": None}

    def _table(self, path: Path) -> Iterator[Pair]:
        for number, line in lines(path):
            if not line.strip():
                self.skipped[EMPTY] += 1
                continue
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) < max(self.columns):
                raise UserError(f"{path}:{number} has only {len(cells)} columns", key="parallel.columns")
            source, target = (cells[column - 1] for column in self.columns)
            yield Pair((source,), target, self._part)

    def _hub(self, rows: HubRows, part: Part | None) -> Iterator[Pair]:
        for number, row in enumerate(rows, 1):
            translation = row.get("translation")
            if not isinstance(translation, dict) or not set(self.languages) <= set(translation):
                fields = ", ".join(translation if isinstance(translation, dict) else row)
                raise UserError(f"{rows.dataset}, row {number} has only {fields}", key="parallel.languages")
            source, target = (translation[language] or "" for language in self.languages)
            yield Pair((source,), target, part)
