"""The exception for errors that the user can fix, shown as a line without a traceback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data.display import printable

LONGEST = 2000  # characters of a line; longer ones quote damaged files, and are cut in the middle


class UserError(Exception):
    """An error that the user can fix: a line for each fault, and exit status 2.

    Control characters are escaped and long lines cut, so that what a line quotes from a file is safe to print.
    """

    status = 2

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(_shown, lines)))

    def __reduce__(self) -> tuple[type[UserError], tuple[str, ...]]:
        return type(self), tuple(str(self).split("\n"))  # its lines, for another process


class ShortTextError(UserError):
    """A text that is too short for a run; ``experiments.advice`` adds settings that work.

    Args:
        line: what is missing.
        longest: tokens of the longest unit, if no unit is long enough.
        units: usable units, if they are fewer than a training batch takes.
        settings: values, by dotted key, that this text needs.
    """

    def __init__(
        self, line: str, *, longest: int = 0, units: int = 0, settings: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(line)
        self.longest, self.units, self.settings = longest, units, settings or {}


class UnfitError(UserError):
    """An objective that cannot train this encoder with the settings of both."""


def _shown(line: str) -> str:
    line = printable(line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def reason(error: BaseException) -> str:
    """Returns the reason in one line without a full stop: the system's, the error's first line, or its class."""
    said = (isinstance(error, OSError) and error.strerror) or str(error).strip()
    return said.splitlines()[0].rstrip(".") if said else type(error).__name__


def is_failure(error: BaseException) -> bool:
    """Returns whether ``error`` is a failure (a panic in Rust included), not a request to stop."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextmanager
def readable(what: Path | str) -> Iterator[None]:
    """Reports a failure to read ``what``, or the file that the system names, in one line.

    Raises:
        UserError: instead of an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or what} cannot be read: {reason(error)}.") from error


@contextmanager
def about(what: Path | str) -> Iterator[None]:
    """Prefixes errors with ``what``, the file or task that they are about.

    Raises:
        UserError: instead of one without the prefix.
    """
    try:
        yield
    except UserError as error:
        first, *others = str(error).split("\n")
        raise UserError(f"{what}: {first}", *others) from None


@contextmanager
def opening(folder: Path | str, what: str = "an encoder") -> Iterator[None]:
    """Turns any error that the files of ``folder`` cause into one line: it cannot be opened as ``what``.

    Damaged files make transformers, tokenizers and torch raise errors of any type, also panics of Rust code, which
    are no ``Exception``.

    Raises:
        UserError: instead of the other error.
    """
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        why = reason(error)
        if why.endswith(":"):  # the cause is on the lines that follow
            why = " ".join(str(error).split())
        if isinstance(error, OSError) and error.filename and Path(folder).is_dir():
            why += f" ({Path(str(error.filename)).name})"
        raise UserError(f"{folder} cannot be opened as {what}: {why[:300]}.") from error
