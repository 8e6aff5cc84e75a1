"""Progress of a run: a live display on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from data.display import PLAIN_SECONDS, duration, printable

Update = Callable[[int, int | None, str], None]  # done, total, further text


class Display:
    """Prints lines and shows progress on one process; a display that is not ``shown`` does nothing.

    Args:
        shown: False on all processes but the first.
        console: where to print; None: standard output.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None) -> None:
        self.console = console or Console(quiet=not shown, highlight=False)
        self._live: Progress | None = None
        self._next_line = 0.0

    def fact(self, name: str, text: str) -> None:
        """Prints a named fact, a line of the run's head."""
        self.say(f"{name:<11} {text}")

    def say(self, text: str, style: str | None = None) -> None:
        lines = "\n".join(map(printable, text.split("\n")))
        self.console.print(lines, style=style, markup=False, emoji=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        self.say(text, style="yellow")

    @contextmanager
    def bar(self, title: str, total: int | None, done: int = 0) -> Iterator[Update]:
        """Shows the progress of a task; yields a function that updates it.

        Without a terminal, a task that has made no progress after ``PLAIN_SECONDS`` is announced by its title.
        """
        if not self.console.is_terminal:
            self._next_line = time.monotonic() + PLAIN_SECONDS
            announcement = threading.Timer(PLAIN_SECONDS, self.say, [f"{title} ..."])
            announcement.daemon = True
            announcement.start()

            def plain(done: int, total: int | None, text: str) -> None:
                if time.monotonic() >= self._next_line or done == total:
                    announcement.cancel()
                    self._next_line = time.monotonic() + PLAIN_SECONDS
                    of = f" of {total:,}" if total else ""
                    self.say(f"{title} {done:,}{of}  {text}".rstrip())

            try:
                yield plain
            finally:
                announcement.cancel()
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(elapsed_when_finished=False),
        )
        with Progress(*columns, console=self.console, transient=True) as live:
            task = live.add_task(title, total=total, completed=done, text="")

            def update(done: int, total: int | None, text: str) -> None:
                live.update(task, completed=done, total=total, text=text)

            yield update


def summary(parts: Mapping[str, float], tokens_per_second: float, seconds_left: float) -> str:
    """Returns loss parts, speed and time left on one line."""
    losses = "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
    return f"{losses}  {tokens_per_second:,.0f} tokens/s  {time_left(seconds_left)}"


def time_left(seconds: float) -> str:
    """Returns "1:15 left", in minutes and seconds, or "3.2 h left"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} left" if minutes < 90 else f"{duration(seconds)} left"
