"""Examples of a task, in the toolkit's order, and lines of its text files, with errors that name file and line."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.errors import UserError, readable
from data.sources.reading import lines as numbered_lines
from data.sources.reading import raw_lines


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


class Captions(NamedTuple):
    """n images of one split and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions per image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]


class Line(NamedTuple):
    """One line of a file.

    Attributes:
        where: "path:number", for messages.
        text: the line without its line break.
    """

    where: str
    text: str

    def columns(self, least: int, shape: str) -> list[str]:
        """Splits the line at tabs.

        Raises:
            UserError: if there are fewer than ``least`` columns; ``shape`` describes a valid line.
        """
        columns = self.text.split("\t")
        if len(columns) < least:
            raise UserError(f"{self.where}: a line must be {shape}. Got {len(columns)} of {least} columns.")
        return columns

    def label(self, label: str, classes: Mapping[str, int]) -> int:
        """Returns the number of ``label``.

        Raises:
            UserError: if it is not one of ``classes``.
        """
        try:
            return classes[label]
        except KeyError:
            shown = [*classes] if len(classes) <= 20 else [*list(classes)[:20], "..."]
            raise UserError(f"{self.where}: label {label!r} is none of {', '.join(shown)}.") from None

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
            raise UserError(f"{self.where}: score {text!r} is no number from {low:g} to {high:g}.")
        return score


def lines(path: Path, encoding: str = "utf-8") -> list[Line]:
    r"""Reads all lines of a file, split only at \n, \r\n and \r, as by ``open``; a BOM is removed.

    (``str.splitlines`` would also split a sentence at \x85 or \u2028.)

    Raises:
        UserError: if it cannot be read, is binary, empty or not in ``encoding``, or has too long a line.
    """
    with readable(path):
        path.stat()  # reports a missing file as such
    found: list[Line] = []
    for _, raw in raw_lines(path):
        raw = raw if found else raw.removeprefix(codecs.BOM_UTF8)
        for piece in raw.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
            where = f"{path}:{len(found) + 1}"
            try:
                found.append(Line(where, piece.decode(encoding)))
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: not {encoding.upper()} text ({error.reason}).") from None
    if not any(line.text.strip() for line in found):
        raise UserError(f"{path} is empty.")
    return found


def stream(path: Path) -> Iterator[Line]:
    """Yields the lines of a text file of any size, plain or .gz, without line breaks.

    Raises:
        UserError: if it cannot be read completely, or is not UTF-8 text.
    """
    return (Line(f"{path}:{number}", text.rstrip("\r\n")) for number, text in numbered_lines(path))
