"""Progress of one task or several: a live display on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from data.display import FIRST_SECONDS, Clock, Pace, duration, printable


class Row(NamedTuple):
    """A task under way.

    Attributes:
        title: its name.
        done: how much of it.
        total: how much there is: 1.0 for shares, an int for things that are counted, None if it is not known.
        text: shown behind it; None: the time left.
    """

    title: str
    done: float
    total: float | None = 1.0
    text: str | None = None

    @property
    def amount(self) -> str:
        """The part that is done, as "20%" or "5 of 10"."""
        if isinstance(self.total, float):
            return f"{self.done:.0%}"
        return f"{self.done:,} of {self.total:,}" if self.total else f"{self.done:,}"


class Display:
    """Prints lines and shows progress on one process; a display that is not ``shown`` does nothing.

    Args:
        shown: False on all processes but the first.
        console: where to print; None: standard output.
        verbose: whether each logged update of a bar is a line of its own, on a terminal above the bar.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None, verbose: bool = False) -> None:
        self.console = console or Console(quiet=not shown, highlight=False)
        self._verbose = verbose

    def fact(self, name: str, text: str) -> None:
        """Prints a named fact, a line of the run's head."""
        self.say(f"{name:<11} {text}")

    def say(self, text: str, style: str | None = None) -> None:
        lines = "\n".join(map(printable, text.split("\n")))
        self.console.print(lines, style=style, markup=False, emoji=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        self.say(text, style="yellow")

    @contextmanager
    def bar(self, title: str, total: float | None, done: float = 0) -> Iterator[Callable[..., None]]:
        """Shows the progress of a task; yields a function that updates it.

        Its arguments: what is done, the total, further text, and whether the update is one of the log.
        """
        with self.rows(title) as show:
            show([Row(title, done, total)])

            def update(done: float, total: float | None, text: str, logged: bool = False) -> None:
                show([Row(title, done, total, text or None)], done == total or (logged and self._verbose))

            yield update

    @contextmanager
    def rows(self, title: str) -> Iterator[Callable[..., None]]:
        """Shows the progress of tasks; yields a function of the rows of all that are under way.

        Without a terminal it prints a line as ``Pace`` allows, and at once where its second argument is true; the
        ``title`` is announced if nothing was printed by then.
        """
        clocks: dict[str, Clock] = {}

        def text(row: Row) -> str:
            if row.text is not None or not row.total:
                return row.text or ""
            if row.title not in clocks:
                clocks[row.title] = Clock()
                clocks[row.title].restart(row.done / row.total)  # what was done before took no time here
            clocks[row.title].share = row.done / row.total
            return clocks[row.title].left()

        def line(rows: Sequence[Row]) -> str:
            return "; ".join(f"{row.title} {row.amount}  {text(row)}".rstrip() for row in rows)

        if not self.console.is_terminal:
            pace = Pace()
            announcement = threading.Timer(1.5 * FIRST_SECONDS, self.say, [f"{title} ..."])
            announcement.daemon = True
            announcement.start()

            def plain(rows: Sequence[Row], now: bool = False) -> None:
                found = line(rows)  # in any case, as the clocks start with the first
                if pace.due(now):
                    announcement.cancel()
                    self.say(found)

            try:
                yield plain
            finally:
                announcement.cancel()
            return
        fields = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("amount", "text"))
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=30), *fields)
        with Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True) as live:
            shown: dict[str, TaskID] = {}

            def update(rows: Sequence[Row], now: bool = False) -> None:
                for gone in shown.keys() - {row.title for row in rows}:
                    live.remove_task(shown.pop(gone))
                for row in rows:
                    if row.title not in shown:
                        shown[row.title] = live.add_task(row.title, total=row.total, amount="", text="")
                    task, amount = shown[row.title], row.amount
                    live.update(task, completed=row.done, total=row.total, amount=amount, text=text(row))
                if now and self._verbose:
                    self.say(line(rows))

            yield update


def summary(parts: Mapping[str, float], tokens_per_second: float, seconds_left: float) -> str:
    """Returns loss parts, speed and time left on one line."""
    losses = "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
    return f"{losses}  {tokens_per_second:,.0f} tokens/s  {time_left(seconds_left)}"


def time_left(seconds: float) -> str:
    """Returns "1:15 left", in minutes and seconds, or "3.2 h left"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} left" if minutes < 90 else f"{duration(seconds)} left"
