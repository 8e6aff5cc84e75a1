"""Lines of the toolkit's text files, and one line of blame for one that is not as it should be."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from data.errors import UserError, readable


class Line(NamedTuple):
    """One line of a file.

    Attributes:
        where: "path:number", for messages.
        text: without its end.
    """

    where: str
    text: str

    def columns(self, least: int, shape: str) -> list[str]:
        """What stands between its tabs.

        Raises:
            UserError: if there are fewer than ``least``; ``shape`` says what the line should be.
        """
        columns = self.text.split("\t")
        if len(columns) < least:
            raise UserError(f"{self.where}: a line must be {shape}. Got {len(columns)} of {least} columns.")
        return columns

    def label(self, label: str, classes: Mapping[str, int]) -> int:
        """The number of ``label``.

        Raises:
            UserError: if it is none of ``classes``.
        """
        try:
            return classes[label]
        except KeyError:
            shown = [*classes] if len(classes) <= 20 else [*list(classes)[:20], "..."]
            raise UserError(f"{self.where}: label {label!r} is none of {', '.join(shown)}.") from None

    def score(self, text: str, low: float, high: float) -> float:
        """``text`` as a gold score.

        Raises:
            UserError: if it is no number from ``low`` to ``high``.
        """
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not low <= score <= high:
            raise UserError(f"{self.where}: score {text!r} is no number from {low:g} to {high:g}.")
        return score


def lines(path: Path, encoding: str = "utf-8") -> list[Line]:
    r"""All lines of a file, broken at \n, \r\n and \r alone, as an open file breaks them; a BOM is dropped.

    (``str.splitlines`` would break a sentence at \x85 or \u2028 too.)

    Raises:
        UserError: if it cannot be read, is empty or is not written in ``encoding``.
    """
    with readable(path):
        raw = path.read_bytes()
    raw = raw.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not raw.strip():
        raise UserError(f"{path} is empty.")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        number = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{number}: not {encoding.upper()} text ({error.reason}).") from None
    pieces = text.removesuffix("\n").split("\n")
    return [Line(f"{path}:{number}", piece) for number, piece in enumerate(pieces, 1)]
