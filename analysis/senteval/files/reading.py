"""Lines of the toolkit's text files, and one line of blame for one that is not as it should be."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from data.errors import UserError, readable
from data.sources.reading import raw_lines


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
    r"""All lines of a file, broken at \n, \r\n and \r only, as an open file breaks them; a BOM is dropped.

    (``str.splitlines`` would break a sentence at \x85 or \u2028 too.)

    Raises:
        UserError: if it cannot be read, is binary, empty or not written in ``encoding``, or has too long a line.
    """
    with readable(path):
        path.stat()  # a missing file is named as such
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
