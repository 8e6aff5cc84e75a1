"""Lines and progress of a run, printed by its first process only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tqdm import tqdm

from data.display import bar, printable


@dataclass
class Display:
    """Prints lines and shows progress; a display that is not ``shown`` does nothing."""

    shown: bool = True

    def fact(self, name: str, text: str) -> None:
        """Prints a named fact, a line of the run's head."""
        self.say(f"{name:<11} {text}")

    def say(self, text: str) -> None:
        """Prints a line, above a bar if there is one."""
        if self.shown:
            tqdm.write(printable(text))
            sys.stdout.flush()

    def bar(self, title: str, done: float = 0.0) -> AbstractContextManager[Callable[..., None]]:
        """Shows progress on standard output, as ``data.display.bar`` does."""
        return bar(title, done, shown=self.shown, file=sys.stdout)
