"""What a run shows while it runs: a live display on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

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

from data.display import printable

Update = Callable[[int, int | None, str], None]  # done, in all, what else to say
PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


class Display:
    """Says lines and shows progress on one process; a display that is not ``shown`` does nothing.

    Args:
        shown: False on all processes but the first.
        console: where to; None: standard output.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None) -> None:
        self.console = console or Console(quiet=not shown, highlight=False)
        self._live: Progress | None = None
        self._next_line = 0.0

    def fact(self, name: str, text: str) -> None:
        """One line of the run's head."""
        self.say(f"{name:<11} {text}")

    def say(self, text: str, style: str | None = None) -> None:
        lines = "\n".join(map(printable, text.split("\n")))
        self.console.print(lines, style=style, markup=False, emoji=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        self.say(text, style="yellow")

    @contextmanager
    def bar(self, title: str, total: int | None, done: int = 0) -> Iterator[Update]:
        """Shows a task while it lasts; yields what brings the display up to date."""
        if not self.console.is_terminal:
            self._next_line = time.monotonic() + PLAIN_SECONDS

            def plain(done: int, total: int | None, text: str) -> None:
                if time.monotonic() >= self._next_line or done == total:
                    self._next_line = time.monotonic() + PLAIN_SECONDS
                    of = f" of {total:,}" if total else ""
                    self.say(f"{title} {done:,}{of}  {text}".rstrip())

            yield plain
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
    """Loss parts, speed and time left, on one line."""
    losses = "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
    minutes, seconds = divmod(round(seconds_left), 60)
    return f"{losses}  {tokens_per_second:,.0f} tokens/s  {minutes}:{seconds:02d} left"
