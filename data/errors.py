"""The one exception that means: the user can mend this; show the line, not a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.display import printable

LONGEST = 2000  # characters of a line; a longer one quotes a damaged file


class UserError(Exception):
    """A line for each fault, of what was wrong and what would be right; commands exit with status 2.

    The lines are fit for a terminal, whatever they quote from a file.
    """

    status = 2

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(_shown, lines)))


class UnfitError(UserError):
    """An objective that cannot train this encoder as the two are set."""


def _shown(line: str) -> str:
    line = printable(line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def reason(error: BaseException) -> str:
    """Why, in one line without a full stop: what the system says, else the first line, else the kind of error."""
    said = (isinstance(error, OSError) and error.strerror) or str(error).strip()
    return said.splitlines()[0].rstrip(".") if said else type(error).__name__


@contextmanager
def readable(what: Path | str) -> Iterator[None]:
    """Turns the system's refusal to read ``what``, or the file that it names, into one line.

    Raises:
        UserError: in its place.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or what} cannot be read: {reason(error)}.") from error


@contextmanager
def about(what: Path | str) -> Iterator[None]:
    """Puts ``what``, the file or task that an error within is about, before its line.

    Raises:
        UserError: in its place.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from None
