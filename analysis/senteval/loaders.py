"""Readers of SentEval's text files, in the order that determines the toolkit's folds and batches.

After ``senteval/{binary,trec,sst,mrpc,sick,sts,snli,probing}.py`` of facebookresearch/SentEval (5d6dc117).

A reader takes the paths of a task's files, by part, and returns the examples, by part. ``by_column`` makes one of
the numbers of columns, ``by_line`` of a function that parses a line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.errors import UserError, reading


class Examples(NamedTuple):
    """n examples of one part, sorted as in the toolkit before it makes folds.

    Attributes:
        first: n sentences, tokens joined by one blank; an empty sentence is ".".
        second: n sentences likewise; empty for tasks on single sentences.
        targets: classes 0 .. C-1 (int64) or gold scores (float64), shape (n,); of captions, five an image, the
            images' features, float32 of shape (n / 5, F).
    """

    first: list[str]
    second: list[str]
    targets: np.ndarray


Files = Mapping[str, Sequence[Path]]  # by part
ParsedRow = tuple[Any, ...]  # target, sentence or sentences
Parse = Callable[..., ParsedRow | None]
Reader = Callable[[Files], dict[str, Examples]]

TREC = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
SICK = {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}
SNLI = {"entailment": 0, "neutral": 1, "contradiction": 2}
PARTS = {"tr": "train", "va": "dev", "te": "test"}

# Splits as bytes.split() does: \xa0 and \x85, halves of UTF-8 letters, are no blanks.
ascii_tokens = re.compile(r"\S+", re.ASCII).findall


def read_rows(
    parse: Parse,
    *paths: Path,
    encoding: str = "utf-8",
    header: int = 0,
    tokens: Callable[[str], Iterable[str]] = str.split,
) -> list[ParsedRow]:
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


def sort_rows(rows: Iterable[ParsedRow], order: Callable[..., Any] = toolkit_order) -> Examples:
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


def by_column(convert: Callable[[str], Any], target: int, *sentences: int, **options: Any) -> Reader:
    """Makes a reader of lines whose columns are divided by tabs.

    Args:
        convert: makes the target of the text in its column.
        target, sentences: numbers of the columns, from 0.
        options: as in ``read_rows``.
    """

    def parse(line: str) -> ParsedRow:
        cells = line.split("\t")
        return convert(cells[target].strip()), *(cells[column] for column in sentences)

    return by_line(parse, **options)


sst2 = by_column(int, 1, 0)
mrpc = by_column(int, 0, 3, 4, header=1)
sick_entailment = by_column(SICK.__getitem__, 4, 1, 2, header=1)
sick_relatedness = by_column(float, 3, 1, 2, header=1)  # 1 .. 5
sts_benchmark = by_column(float, 4, 5, 6)  # 0 .. 5


@by_line
def sst5(line: str) -> ParsedRow:
    """Parses 0 .. 4, blank, sentence."""
    text, sentence = line.strip().split(" ", 1)
    return int(text), sentence


@partial(by_line, encoding="latin-1")
def trec(line: str) -> ParsedRow:
    """Parses "LOC:city What is the capital of ...", with the coarse class."""
    text, question = line.strip().split(" ", 1)
    return TREC[text.partition(":")[0]], question


@by_line
def sts(pair: str, text: str) -> ParsedRow | None:
    """Parses two sentences with a tab between, and a score 0 .. 5 or blank; pairs without a score are left out."""
    first, second, *_ = pair.split("\t")
    return (float(text), first, second) if text.strip() else None


def _snli_order(target: int, premise: str, hypothesis: str) -> tuple[int, ...]:
    """Returns the key of the toolkit's order of SNLI: lengths of hypothesis and premise, the label by its name."""
    return _length(hypothesis), _length(premise), (target + 1) % len(SNLI)


@partial(by_line, order=_snli_order, encoding="latin-1", tokens=ascii_tokens)
def snli(premise: str, hypothesis: str, text: str) -> ParsedRow:
    """Parses a line of each of SNLI's files."""
    return SNLI[text], premise, hypothesis


def binary(files: Files) -> dict[str, Examples]:
    """Reads MR, CR, SUBJ, MPQA: a file per class, a sentence per line; the first file is class 1."""
    rows = []
    for target, path in zip((1, 0), files["all"], strict=True):
        rows += read_rows(lambda sentence, target=target: (target, sentence), path, encoding="latin-1")
    return {"all": sort_rows(rows)}


def probing(files: Files) -> dict[str, Examples]:
    """Reads a probing task: tr, va or te, label, sentence, by tabs; the classes are those of tr, by name."""

    def parse(line: str) -> ParsedRow:
        part, text, *_, sentence = line.split("\t")
        return (PARTS[part], text), sentence

    [path] = files["all"]
    rows = read_rows(parse, path)
    with reading("probing task", path):
        names = sorted({text for (part, text), _ in rows if part == "train"})
        classes = {name: number for number, name in enumerate(names)}
        return {
            part: sort_rows((classes[text], sentence) for (here, text), sentence in rows if here == part)
            for part in PARTS.values()
        }


def _length(sentence: str) -> int:
    return sentence.count(" ") + bool(sentence)
