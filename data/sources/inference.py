"""Natural language inference: premise, hypothesis and one of three classes, from SNLI's and MultiNLI's files.

Bowman et al. 2015 (SNLI), Williams et al. 2018 (MultiNLI); pairs whose annotators did not agree carry no class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data.errors import UserError
from data.pairs import Pair, PairSource
from data.ranges import Below1
from data.sources.base import Part
from data.sources.hub import HubRows
from data.sources.reading import aligned_lines, digest, find_files, lines, parse_object

KINDS = (".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
CLASSES = ("entailment", "neutral", "contradiction")
NO_CLASS = "without a class"
FIELDS = ("gold_label", "sentence1", "sentence2")
ROW_FIELDS = ("label", "premise", "hypothesis")
INSTEAD = "files (inference.path) need no network"


class Inference(PairSource):
    """Pairs of sentences in three classes.

    A .jsonl file has an object a line with the fields gold_label, sentence1 and sentence2; a .tsv or .txt file has
    columns of these names under a header, separated by tabs, without quoting (as SNLI's and MultiNLI's). The three
    files of SentEval's form are given by the first of them, s1.train; s2.train and labels.train are in the same
    folder. ``.gz`` may follow. Pairs of one premise are held out together; pairs without a class ("-") are left
    out and counted.

    Args:
        path: a file, a folder, a glob, or a list of these.
        dataset: instead of ``path``, a data set of the Hugging Face hub ("stanfordnlp/snli", "nyu-mll/multi_nli"),
            whose rows have premise, hypothesis and label, a number (-1: no class); no code of it is run.
        subset: name of the configuration.
        split: name of the split.
        dev_split: the split that is held out ("validation", "validation_matched"); then nothing else is held out.
        revision: branch, tag or commit.
        dev_path: held-out pairs, as ``path``; then nothing else is held out.
        dev_fraction: see PairSource.

    Raises:
        UserError: if not exactly one place of the pairs is given, a path is missing, or the hub cannot be reached;
            while reading, if a line is not as above.
    """

    name = "inference"
    n_sources = 2
    classes = CLASSES

    def __init__(
        self,
        *,
        path: str | Sequence[str] | None = None,
        dataset: str | None = None,
        subset: str | None = None,
        split: str = "train",
        dev_split: str | None = None,
        revision: str | None = None,
        dev_path: str | Sequence[str] | None = None,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(dev_fraction=dev_fraction)
        if (path is None) == (dataset is None):
            raise UserError("set this or dataset, and only one of them", key="inference.path")
        if dev_split is not None and (dataset is None or dev_path is not None):
            raise UserError("is for a dataset without dev_path", key="inference.dev_split")
        held_out = dev_split is not None or dev_path is not None
        part: Part | None = "train" if held_out else None
        dev_files = _files(dev_path, "inference.dev_path")
        files = [file for file in _files(path, "inference.path") if file not in dev_files]
        self._files: list[tuple[Path, Part | None]] = [(file, part) for file in files]
        self._files += [(file, "dev") for file in dev_files]
        if path is not None and not files:
            raise UserError("no file is left beside those of dev_path", key="inference.path")
        options = {"subset": subset, "revision": revision, "setting": self.name, "instead": INSTEAD}
        self._rows = HubRows.parts(dataset, split, dev_split, part, **options)

    def pairs(self) -> Iterator[Pair]:
        for rows, part in self._rows:
            for number, row in enumerate(rows, 1):
                where = f"{rows.dataset}, row {number}"
                yield from self._pair(where, part, *_picked(row, ROW_FIELDS, where))
        for path, part in self._files:
            for where, record in _records(path):
                yield from self._pair(where, part, *record)

    def identity(self) -> Iterator[str]:
        for rows, part in self._rows:
            yield f"{rows.identity()} {part}"
        for path, part in self._files:
            yield f"{part} " + " ".join(digest(file) for file in _senteval_files(path) or [path])

    def describe(self) -> dict[str, Any]:
        where = [rows.where() for rows, _ in self._rows[:1]] + [str(path) for path, _ in self._files]
        return {"name": self.name, "where": ", ".join(where), "licence": None}

    def _pair(self, where: str, part: Part | None, label: Any, premise: Any, hypothesis: Any) -> Iterator[Pair]:
        if label in ("-", -1):
            self.skipped[NO_CLASS] += 1
            return
        if label in CLASSES:
            label = CLASSES.index(label)
        if isinstance(label, bool) or label not in range(len(CLASSES)):
            raise UserError(f"label {label!r} is none of {', '.join(CLASSES)}, -", key=where)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise UserError("premise and hypothesis must be text", key=where)
        yield Pair((premise, hypothesis), label, part, premise)


def _files(paths: str | Sequence[str] | None, key: str) -> list[Path]:
    files = find_files(paths, KINDS, key)
    for path in files:
        if not path.name.lower().endswith(KINDS) and not path.name.startswith("s1."):
            raise UserError(f"{path} must end in one of {', '.join(KINDS)}, or be SentEval's s1.train", key=key)
    return files


def _senteval_files(path: Path) -> list[Path]:
    """Returns SentEval's three files if ``path`` is the first of them, else none."""
    if not path.name.startswith("s1.") or path.name.lower().endswith(KINDS):
        return []
    return [path.with_name(f"{column}.{path.name.removeprefix('s1.')}") for column in ("labels", "s1", "s2")]


def _records(path: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if three := _senteval_files(path):
        for number, row in aligned_lines(*three):
            yield f"{three[0]}:{number}", tuple(cell.strip() for cell in row)
    elif ".jsonl" in path.name.lower():
        for number, line in lines(path):
            if line.strip():
                where = f"{path}:{number}"
                yield where, _picked(parse_object(line, where), FIELDS, where)
    else:
        header: list[str] = []
        for number, line in lines(path):
            cells, where = line.rstrip("\r\n").split("\t"), f"{path}:{number}"
            if not header:
                header = cells
                _picked(dict.fromkeys(header), FIELDS, where)
            elif len(cells) != len(header):
                raise UserError(f"{len(cells)} columns, and the header has {len(header)}", key=where)
            else:
                yield where, _picked(dict(zip(header, cells, strict=True)), FIELDS, where)


def _picked(record: dict[str, Any], names: tuple[str, ...], where: str) -> tuple[Any, ...]:
    missing = [name for name in names if name not in record]
    if missing:
        raise UserError(f"there is no {missing[0]!r}; there must be {', '.join(names)}", key=where)
    return tuple(record[name] for name in names)
