"""Readers of SentEval's text files, in the order that determines the toolkit's folds and batches.

After ``senteval/{binary,trec,sst,mrpc,sick,sts,snli,probing}.py`` of facebookresearch/SentEval (5d6dc117).

A reader takes the paths of a task's files, by part, and returns the examples, by part. Most readers are a function
that parses a line, decorated by ``by_line``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from data.errors import UserError, reading


class Examples(NamedTuple):
    """n examples of one part, sorted as in the toolkit before it makes folds.

    Attributes:
        first: n sentences, tokens joined by one blank; an empty sentence is ".".
        second: n sentences likewise; empty for tasks on single sentences.
        targets: classes 0 .. C-1 (int64) or gold scores (float64), shape (n,).
    """

    first: list[str]
    second: list[str]
    targets: np.ndarray


Files = Mapping[str, Sequence[Path]]  # by part
Row = tuple[Any, ...]  # target, sentence or sentences
Parse = Callable[..., Row | None]
Reader = Callable[[Files], dict[str, Examples]]
T = TypeVar("T")

BINARY = {"0": 0, "1": 1}
FINE = {str(label): label for label in range(5)}
TREC = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
SICK = {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}
SNLI = {"entailment": 0, "neutral": 1, "contradiction": 2}
PARTS = {"tr": "train", "va": "dev", "te": "test"}

# Splits as bytes.split() does: \xa0 and \x85, halves of UTF-8 letters, are no blanks.
ascii_tokens = re.compile(r"\S+", re.ASCII).findall


def label(text: str, classes: Mapping[str, T]) -> T:
    """Returns the class of a label.

    Raises:
        ValueError: if ``text`` is none of ``classes``.
    """
    if text not in classes:
        raise ValueError(f"label {text!r} is none of {', '.join(classes)}")
    return classes[text]


def score(text: str, low: float, high: float) -> float:
    """Parses a gold score.

    Raises:
        ValueError: if ``text`` is not a number from ``low`` to ``high``.
    """
    number = float(text)
    if not low <= number <= high:
        raise ValueError(f"score {text} is not in {low:g} .. {high:g}")
    return number


def read_rows(
    parse: Parse,
    *paths: Path,
    encoding: str = "utf-8",
    header: int = 0,
    tokens: Callable[[str], Iterable[str]] = str.split,
) -> list[Row]:
    r"""Parses parallel files line by line; lines end in \n, \r\n or \r, and a byte order mark is removed.

    Args:
        parse: called with a line of each file, without its end; returns target and sentences, or None to leave the
            line out.
        paths: the files.
        encoding: their encoding.
        header: lines to skip.
        tokens: splits a sentence; its tokens are joined by one blank.

    Raises:
        UserError: with file and line, if ``parse`` raises; with the files, if they differ in length or are empty.
    """
    files = ", ".join(map(str, paths))
    with reading("text file", files):
        columns = [path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()[header:] for path in paths]
        lines = list(zip(*columns, strict=True))
    rows = []
    for number, line in enumerate(lines, header + 1):
        try:
            if row := parse(*(text.decode(encoding) for text in line)):
                target, *sentences = row
                rows.append((target, *(" ".join(tokens(sentence)) for sentence in sentences)))
        except Exception:  # a context for each of SNLI's lines would take as long as reading them
            with reading("line", ", ".join(f"{path}:{number}" for path in paths)):
                raise
    if not rows:
        raise UserError("no examples", key=files)
    return rows


def toolkit_order(target: Any, *sentences: str) -> tuple[Any, ...]:
    """Returns the key of the toolkit's order: numbers of tokens, then the target."""
    return *map(_length, sentences), target


def sort_rows(rows: Iterable[Row], order: Callable[..., Any] = toolkit_order) -> Examples:
    """Sorts examples as the toolkit does before it makes folds; equal ones keep their order.

    Args:
        rows: target and sentences, their tokens joined by one blank.
        order: key, called with a row's target and sentences.
    """
    targets, first, *second = zip(*sorted(rows, key=lambda row: order(*row)), strict=True)
    return Examples(
        [sentence or "." for sentence in first],
        [sentence or "." for sentences in second for sentence in sentences],
        np.array(targets),
    )


def by_line(parse: Parse, order: Callable[..., Any] = toolkit_order, **options: Any) -> Reader:
    """Makes a reader of a function that parses a line (or a line of each of a part's parallel files); a decorator.

    Args:
        parse, options: as in ``read_rows``.
        order: as in ``sort_rows``.
    """
    return lambda files: {
        part: sort_rows(read_rows(parse, *paths, **options), order) for part, paths in files.items()
    }


@by_line
def sst2(line: str) -> Row:
    """Parses sentence, tab, 0 or 1."""
    sentence, text, *_ = line.split("\t")
    return label(text.strip(), BINARY), sentence


@by_line
def sst5(line: str) -> Row:
    """Parses 0 .. 4, blank, sentence."""
    text, sentence = line.strip().split(" ", 1)
    return label(text, FINE), sentence


@partial(by_line, encoding="latin-1")
def trec(line: str) -> Row:
    """Parses "LOC:city What is the capital of ...", with the coarse class."""
    text, question = line.strip().split(" ", 1)
    return label(text.partition(":")[0], TREC), question


@partial(by_line, header=1)
def mrpc(line: str) -> Row:
    """Parses 0 or 1, two numbers, two sentences, by tabs."""
    text, _, _, first, second, *_ = line.split("\t")
    return label(text.strip(), BINARY), first, second


@partial(by_line, header=1)
def sick_entailment(line: str) -> Row:
    """Parses number, two sentences, relatedness, entailment, by tabs."""
    _, first, second, _, text, *_ = line.split("\t")
    return label(text.strip(), SICK), first, second


@partial(by_line, header=1)
def sick_relatedness(line: str) -> Row:
    """Parses the same lines, with the relatedness 1 .. 5."""
    _, first, second, text, _, *_ = line.split("\t")
    return score(text, 1, 5), first, second


@by_line
def sts_benchmark(line: str) -> Row:
    """Parses four columns of origin, score 0 .. 5, two sentences, by tabs."""
    _, _, _, _, text, first, second, *_ = line.split("\t")
    return score(text, 0, 5), first, second


@by_line
def sts(pair: str, text: str) -> Row | None:
    """Parses two sentences with a tab between, and a score 0 .. 5 or blank; pairs without a score are left out."""
    first, second, *_ = pair.split("\t")
    return (score(text, 0, 5), first, second) if text.strip() else None


def _snli_order(target: int, premise: str, hypothesis: str) -> tuple[int, ...]:
    """Returns the key of the toolkit's order of SNLI: lengths of hypothesis and premise, the label by its name."""
    return _length(hypothesis), _length(premise), (target + 1) % len(SNLI)


@partial(by_line, order=_snli_order, encoding="latin-1", tokens=ascii_tokens)
def snli(premise: str, hypothesis: str, text: str) -> Row:
    """Parses a line of each of SNLI's files."""
    return label(text, SNLI), premise, hypothesis


def binary(files: Files) -> dict[str, Examples]:
    """Reads MR, CR, SUBJ, MPQA: a file per class, a sentence per line; the first file is class 1."""
    rows = []
    for target, path in zip((1, 0), files["all"], strict=True):
        rows += read_rows(lambda sentence, target=target: (target, sentence), path, encoding="latin-1")
    return {"all": sort_rows(rows)}


def probing(files: Files) -> dict[str, Examples]:
    """Reads a probing task: tr, va or te, label, sentence, by tabs; the classes are those of tr, by name."""

    def parse(line: str) -> Row:
        part, text, *_, sentence = line.split("\t")
        return (label(part, PARTS), text), sentence

    [path] = files["all"]
    rows = read_rows(parse, path)
    with reading("probing task", path):
        if {part for (part, _), _ in rows} != {*PARTS.values()}:
            raise ValueError(f"not all of the parts {', '.join(PARTS)}")
        names = sorted({text for (part, text), _ in rows if part == "train"})
        classes = dict(zip(names, range(len(names)), strict=True))
        return {
            part: sort_rows((label(text, classes), sentence) for (here, text), sentence in rows if here == part)
            for part in PARTS.values()
        }


def _length(sentence: str) -> int:
    return sentence.count(" ") + bool(sentence)
