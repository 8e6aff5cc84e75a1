"""Lines and loaders of SentEval's text files, in the order that determines the toolkit's folds and batches.

One loader per file format, after ``senteval/{binary,trec,sst,mrpc,sick,sts,snli,probing}.py`` of
facebookresearch/SentEval (5d6dc117). Each takes the folder of the task's files and raises UserError with file
and line if the format is wrong. ``stream`` reads the text files of the other evaluations.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.errors import UserError
from data.sources import reading

SST_FILES = {split: f"sentiment-{split}" for split in ("train", "dev", "test")}
TREC_FILES = {"train": "train_5500.label", "test": "TREC_10.label"}
MRPC_FILES = {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}
SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
STSB_FILES = {split: f"sts-{split}.csv" for split in ("train", "dev", "test")}
SNLI_FILES = {
    split: tuple(f"{part}.{split}" for part in ("s1", "s2", "labels")) for split in ("train", "dev", "test")
}

BINARY = {"0": 0, "1": 1}
FINE = {str(label): label for label in range(5)}
TREC = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
SICK = {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}
SNLI = {"entailment": 0, "neutral": 1, "contradiction": 2}
PARTS = {"tr": "train", "va": "dev", "te": "test"}


class Examples(NamedTuple):
    """n examples of one split, sorted as in the toolkit before it makes folds.

    Attributes:
        first: n sentences, tokens joined by one space; an empty sentence is ".".
        second: n sentences likewise; empty for tasks on single sentences.
        targets: classes 0 .. C-1 (int64) or gold scores (float64), of shape (n,).
    """

    first: list[str]
    second: list[str]
    targets: np.ndarray


class Example(NamedTuple):
    """An example of a file: tokens of one or two sentences, and the class or score."""

    first: list[str]
    second: list[str] | None
    target: int | float


class Line(NamedTuple):
    """One line of a file.

    Attributes:
        path, number: where it is; ``number`` counts from 1.
        text: the line without its line break.
    """

    path: Path
    number: int
    text: str

    @property
    def where(self) -> str:
        """Returns "path:number", for messages."""
        return f"{self.path}:{self.number}"

    def columns(self, least: int, shape: str) -> list[str]:
        """Splits the line at tabs.

        Raises:
            UserError: if there are fewer than ``least`` columns; ``shape`` describes a valid line.
        """
        columns = self.text.split("\t")
        if len(columns) < least:
            raise UserError(f"a line must be {shape}, and this one has {len(columns)} columns", key=self.where)
        return columns

    def label(self, label: str, classes: Mapping[str, int]) -> int:
        """Returns the number of ``label``.

        Raises:
            UserError: if it is not one of ``classes``.
        """
        try:
            return classes[label]
        except KeyError:
            raise UserError(f"label {label!r} is none of {', '.join([*classes][:20])}", key=self.where) from None

    def score(self, text: str, low: float, high: float) -> float:
        """Parses ``text`` as a gold score.

        Raises:
            UserError: if it is not a number from ``low`` to ``high``.
        """
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not low <= score <= high:
            raise UserError(f"score {text!r} is no number from {low:g} to {high:g}", key=self.where)
        return score


def lines(path: Path, encoding: str = "utf-8") -> list[Line]:
    r"""Reads all lines of a file, split only at \n, \r\n and \r, as by ``open``; a BOM is removed.

    (``str.splitlines`` would also split a sentence at \x85 or \u2028.)

    Raises:
        UserError: if it cannot be read, is binary, empty or not in ``encoding``, or has too long a line.
    """
    found: list[Line] = []
    for _, raw in reading.raw_lines(path):
        raw = raw if found else raw.removeprefix(codecs.BOM_UTF8)
        for piece in raw.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
            number = len(found) + 1
            try:
                found.append(Line(path, number, piece.decode(encoding)))
            except UnicodeDecodeError as error:
                raise UserError(f"not {encoding.upper()} text ({error.reason})", key=f"{path}:{number}") from None
    if not any(line.text.strip() for line in found):
        raise UserError("empty", key=str(path))
    return found


def stream(path: Path) -> Iterator[Line]:
    """Yields the lines of a text file of any size, plain or .gz, without line breaks.

    Raises:
        UserError: if it cannot be read completely, or is not UTF-8 text.
    """
    return (Line(path, number, text.rstrip("\r\n")) for number, text in reading.lines(path))


def binary(folder: Path, positive: str, negative: str) -> dict[str, Examples]:
    """Loads MR, CR, SUBJ, MPQA: a file per class, a sentence per line; ``positive`` is class 1 and comes first."""
    found = [
        Example(line.text.split(), None, label)
        for name, label in ((positive, 1), (negative, 0))
        for line in lines(folder / name, "latin-1")
    ]
    return {"all": sorted_examples(found)}


def trec(folder: Path) -> dict[str, Examples]:
    """Loads TREC with its six coarse classes; lines are "LOC:city What is the capital of ..."."""

    def example(line: Line) -> Example:
        label, colon, rest = line.text.strip().partition(":")
        _, blank, question = rest.partition(" ")
        if not (colon and blank):
            raise UserError("a line must be CLASS:subclass, space, question", key=line.where)
        return Example(question.split(), None, line.label(label, TREC))

    return {
        split: sorted_examples(map(example, lines(folder / name, "latin-1"))) for split, name in TREC_FILES.items()
    }


def sst2(folder: Path) -> dict[str, Examples]:
    """Loads SST2; lines are sentence, tab, 0 or 1."""

    def example(line: Line) -> Example:
        sentence, label, *_ = line.columns(2, "sentence, tab, label")
        return Example(sentence.split(), None, line.label(label.strip(), BINARY))

    return {split: sorted_examples(map(example, lines(folder / name))) for split, name in SST_FILES.items()}


def sst5(folder: Path) -> dict[str, Examples]:
    """Loads SST5; lines are 0 .. 4, space, sentence."""

    def example(line: Line) -> Example:
        label, blank, sentence = line.text.strip().partition(" ")
        if not blank:
            raise UserError("a line must be label, space, sentence", key=line.where)
        return Example(sentence.split(), None, line.label(label, FINE))

    return {split: sorted_examples(map(example, lines(folder / name))) for split, name in SST_FILES.items()}


def mrpc(folder: Path) -> dict[str, Examples]:
    """Loads MRPC; below a header, lines are 0 or 1, two numbers, two sentences, separated by tabs."""

    def example(line: Line) -> Example:
        columns = line.columns(5, "label, two numbers and two sentences, separated by tabs")
        return Example(columns[3].split(), columns[4].split(), line.label(columns[0].strip(), BINARY))

    return {split: sorted_examples(map(example, _headed(folder / name))) for split, name in MRPC_FILES.items()}


def sick(folder: Path, *, entailment: bool) -> dict[str, Examples]:
    """Loads SICK; below a header, lines are number, two sentences, relatedness 1 .. 5, entailment, by tabs.

    Targets are the classes if ``entailment`` is true, otherwise the scores.
    """

    def example(line: Line) -> Example:
        columns = line.columns(5, "number, two sentences, score and label, separated by tabs")
        label, score = columns[4].strip(), columns[3].strip()
        target = line.label(label, SICK) if entailment else line.score(score, 1, 5)
        return Example(columns[1].split(), columns[2].split(), target)

    return {split: sorted_examples(map(example, _headed(folder / name))) for split, name in SICK_FILES.items()}


def sts_benchmark(folder: Path) -> dict[str, Examples]:
    """Loads STSBenchmark; lines are four columns of origin, score 0 .. 5, two sentences, separated by tabs."""

    def example(line: Line) -> Example:
        columns = line.columns(7, "four columns of origin, score and two sentences, separated by tabs")
        return Example(columns[5].split(), columns[6].split(), line.score(columns[4].strip(), 0, 5))

    return {split: sorted_examples(map(example, lines(folder / name))) for split, name in STSB_FILES.items()}


def sts(folder: Path, subsets: Sequence[str]) -> dict[str, Examples]:
    """Loads a year of STS12-16: files of two sentences separated by a tab, and files of scores 0 .. 5.

    Pairs with a blank score are left out, as they have no annotation.
    """
    found = {}
    for subset in subsets:
        pairs, scores = _parallel(folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt")
        kept = []
        for pair, score in zip(pairs, scores, strict=True):
            first, second, *_ = pair.columns(2, "two sentences separated by a tab")
            if text := score.text.strip():
                kept.append(Example(first.split(), second.split(), score.score(text, 0, 5)))
        found[subset] = sorted_examples(kept)
    return found


def snli(folder: Path) -> dict[str, Examples]:
    """Loads SNLI: one file each of premises, hypotheses and labels; longer hypotheses come later.

    As in the toolkit, sentences are decoded as latin-1, which garbles letters beyond ASCII, and sorted by the
    lengths of hypothesis and premise and by the label's name.
    """
    result = {}
    for split, names in SNLI_FILES.items():
        paths = (folder / name for name in names)
        premises, hypotheses, labels = _parallel(*paths, encodings=("latin-1", "latin-1", "utf-8"))
        found = []
        for premise, hypothesis, label in zip(premises, hypotheses, labels, strict=True):
            first, second = (line.text.encode("latin-1").split() for line in (premise, hypothesis))
            order = len(second), len(first), label.text
            found.append((order, _latin(first), _latin(second), label.label(label.text, SNLI)))
        found.sort(key=itemgetter(0))
        _, firsts, seconds, targets = zip(*found, strict=True)
        result[split] = Examples([*firsts], [*seconds], np.array(targets))
    return result


def probing(folder: Path, name: str) -> dict[str, Examples]:
    """Loads a probing task; lines are tr, va or te, label, sentence, separated by tabs.

    Classes are the labels of the training part, numbered in alphabetical order.
    """
    rows: dict[str, list[tuple[Line, str, list[str]]]] = {part: [] for part in PARTS}
    for line in lines(folder / name):
        part, label, *_, sentence = line.columns(3, "part, label and sentence, separated by tabs")
        if part not in rows:
            raise UserError(f"part {part!r} is none of {', '.join(PARTS)}", key=line.where)
        rows[part].append((line, label, sentence.split()))
    for part, found in rows.items():
        if not found:
            raise UserError(f"no line of part {part} ({PARTS[part]})", key=str(folder / name))
    classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in rows["tr"]}))}
    return {
        PARTS[part]: sorted_examples(
            Example(tokens, None, line.label(label, classes)) for line, label, tokens in found
        )
        for part, found in rows.items()
    }


def _headed(path: Path) -> list[Line]:
    """Returns the lines below the header."""
    found = lines(path)[1:]
    if not found:
        raise UserError("nothing below its header", key=str(path))
    return found


def _parallel(*paths: Path, encodings: Sequence[str] = ("utf-8", "utf-8")) -> list[list[Line]]:
    """Returns the lines of parallel files."""
    found = [lines(path, encoding) for path, encoding in zip(paths, encodings, strict=True)]
    for path, here in zip(paths, found, strict=True):
        if len(here) != len(found[0]):
            raise UserError(f"{len(here)} lines, and {paths[0].name} has {len(found[0])}", key=str(path))
    return found


def _latin(tokens: list[bytes]) -> str:
    r"""Joins what bytes.split() found, as in the toolkit: \xa0 and \x85 are halves of UTF-8 letters, no blanks."""
    return b" ".join(tokens).decode("latin-1") or "."


def sorted_examples(found: Iterable[Example]) -> Examples:
    """Sorts examples as the toolkit does: by number of tokens (first, second), target, position."""
    ordered = sorted(found, key=lambda e: (len(e.first), len(e.second or ()), e.target))
    return Examples(
        first=[_sentence(example.first) for example in ordered],
        second=[_sentence(example.second) for example in ordered if example.second is not None],
        targets=np.array([example.target for example in ordered]),
    )


def _sentence(tokens: list[str]) -> str:
    return " ".join(tokens) or "."
