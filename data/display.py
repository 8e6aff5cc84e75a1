"""Output for people: text without control characters or formulas, names of models, durations, progress."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from tqdm import tqdm

DAY = 24 * 3600  # seconds
# Without a terminal: before the first line of progress, and between two lines.
FIRST_SECONDS, PLAIN_SECONDS = 10.0, 60.0

# C0 and C1 controls, line separators, bidirectional controls, and lone surrogates.
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # spreadsheets take the wide forms too


def printable(text: str) -> str:
    r"""Replaces control characters by visible escapes: an escape character becomes the four characters \x1b."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def csv_cell(value: object) -> object:
    """Returns a cell of a CSV file that a spreadsheet shows and does not compute.

    Text is made printable, and begins with an apostrophe where it would be a formula. Numbers, also as text, and
    None stay as they are.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) and not is_number(text) else text


def nearest_model(name: str, known: Iterable[str]) -> str | None:
    """Returns the closest of ``known`` models, ignoring case and hyphens; None if none is close."""
    spelled = {each.lower().replace("-", "_"): each for each in known}
    near = get_close_matches(name.lower().replace("-", "_"), spelled, 1, 0.8)
    return spelled[near[0]] if near else None


def duration(seconds: float) -> str:
    """Returns a duration in one unit: "40 s", "5 min", "3.2 h", "2.1 days", "22 years"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    count, unit = (days, "days") if days < 2 * 365 else (days / 365.25, "years")
    return f"{count:.1f} {unit}" if count < 10 else f"{count:,.0f} {unit}"


class Pace:
    """Limits lines of progress: the first after ``FIRST_SECONDS``, further ones every ``PLAIN_SECONDS``."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_SECONDS

    def due(self, at_once: bool = False) -> bool:
        """Returns whether a line is due (``at_once``: in any case), and if so starts the next interval."""
        now = time.monotonic()
        if not at_once and now < self._next:
            return False
        self._next = now + PLAIN_SECONDS
        return True


@contextmanager
def bar(title: str) -> Iterator[Callable[[float], None]]:
    """Shows progress on the error stream: a bar on a terminal, otherwise a line a minute.

    Yields a function that takes the share done, 0 to 1.
    """
    if not sys.stderr.isatty():
        start, pace = time.monotonic(), Pace()

        def line(share: float) -> None:
            if 0 < share < 1 and pace.due():
                left = tqdm.format_interval((time.monotonic() - start) * (1 - share) / share)
                print(f"{title} {share:.0%}, {left} left", file=sys.stderr)

        yield line
        return
    layout = "{desc} {percentage:.0f}% {bar:30} {remaining} left"
    with tqdm(desc=title, total=1.0, leave=False, miniters=0, bar_format=layout) as shown:
        yield lambda share: shown.update(share - shown.n)


def is_number(text: str) -> bool:
    """Returns whether ``text`` reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value in nested mappings with its dotted key ("part.size"), after ``prefix``."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
