"""Progress of one task or several: bars on a terminal, a line a minute elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn

from data.display import DAY, Pace, duration, printable


class Row(NamedTuple):
    """A task under way.

    Attributes:
        title: its name.
        done: how much of it.
        total: how much there is: 1.0 for shares, an int for things that are counted, None if it is not known.
        text: shown behind it.
    """

    title: str
    done: float
    total: float | None = 1.0
    text: str = ""

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
        self.console.print(printable(text), style=style, markup=False, emoji=False, soft_wrap=True)

    @contextmanager
    def bar(self, title: str, total: float | None, done: float = 0) -> Iterator[Callable[..., None]]:
        """Shows the progress of a task; yields a function that updates it.

        Its arguments: what is done, the total, further text, and whether the update is one of the log.
        """
        with self.rows() as show:
            show([Row(title, done, total)])

            def update(done: float, total: float | None, text: str = "", logged: bool = False) -> None:
                show([Row(title, done, total, text)], done == total or (logged and self._verbose))

            yield update

    @contextmanager
    def rows(self) -> Iterator[Callable[..., None]]:
        """Shows the progress of tasks; yields a function of the rows of all that are under way.

        Without a terminal it prints a line as ``Pace`` allows, and at once where its second argument is true.
        """
        pace, tasks, plain = Pace(), dict[str, Task](), not self.console.is_terminal
        title, text = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[text]"))
        with Progress(
            title,
            BarColumn(30),
            text,
            console=self.console,
            transient=True,
            disable=plain,
            speed_estimate_period=DAY,
        ) as live:

            def show(rows: Sequence[Row], now: bool = False) -> None:
                for gone in tasks.keys() - {row.title for row in rows}:
                    live.remove_task(tasks.pop(gone).id)
                for row in rows:
                    if row.title not in tasks:
                        live.add_task(row.title, total=row.total, text="")
                        tasks[row.title] = live.tasks[-1]
                    task = tasks[row.title]
                    live.update(task.id, total=row.total, completed=row.done)
                    left = f"{duration(task.time_remaining)} left" if task.time_remaining else ""
                    parts = (row.amount, row.text, left)
                    live.update(task.id, text="  ".join(filter(None, parts)))
                if pace.due(now) if plain else now and self._verbose:
                    self.say("; ".join(f"{name} {task.fields['text']}" for name, task in tasks.items()))

            yield show


def summary(parts: Mapping[str, float], tokens_per_second: float) -> str:
    """Returns loss parts and speed on one line."""
    losses = "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
    return f"{losses}  {tokens_per_second:,.0f} tokens/s"
