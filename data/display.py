"""Output for people: text without control characters, progress."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, TextIO

from tqdm import tqdm

tqdm.set_lock(RLock())  # its own takes a semaphore of the system, which a killed process leaves behind
# Without a terminal: seconds before the first line of progress, and between two lines.
FIRST_SECONDS, PLAIN_SECONDS = 10.0, 60.0

# C0 and C1 controls, line separators, bidirectional controls, and lone surrogates.
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Replaces control characters by visible escapes: an escape character becomes the four characters \x1b."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


@contextmanager
def bar(
    title: str, done: float = 0.0, *, shown: bool = True, file: TextIO | None = None
) -> Iterator[Callable[..., None]]:
    """Shows progress: a bar on a terminal, otherwise a line a minute.

    Yields a function that takes the share done, 0 to 1, and further text.

    Args:
        title: name of the work.
        done: share that is done already.
        shown: False shows nothing.
        file: None for the error stream.
    """
    file = file or sys.stderr
    if not (shown and file.isatty()):
        start = time.monotonic()
        due = start + FIRST_SECONDS

        def line(share: float, text: str = "") -> None:
            nonlocal due
            now = time.monotonic()
            if shown and share < 1 and now >= due:
                due = now + PLAIN_SECONDS
                parts = [f"{title} {share:.0%}", text]
                if share > done:
                    seconds = (now - start) * (1 - share) / (share - done)
                    parts.append(f"{tqdm.format_interval(round(seconds))} left")
                print(*filter(None, parts), sep="  ", file=file, flush=True)

        yield line
        return
    layout = "{desc} {percentage:.0f}% {bar:30} {remaining} left{postfix}"
    options = {"miniters": 0, "smoothing": 0, "bar_format": layout}  # the time left is that at the mean speed
    with tqdm(desc=title, total=1.0, initial=done, leave=False, file=file, **options) as live:

        def update(share: float, text: str = "") -> None:
            live.set_postfix_str(text, refresh=False)
            live.update(share - live.n)

        yield update


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value in nested mappings with its dotted key ("part.size"), after ``prefix``."""
    for key, value in values.items():
        name = prefix + key
        yield from flatten(value, f"{name}.") if isinstance(value, Mapping) else [(name, value)]
