"""The one exception that means: the user can mend this; show the line, not a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """One line that says what was wrong and what would be right; commands exit with status 2."""

    status = 2


class UnfitError(UserError):
    """An objective that cannot train this encoder as the two are set."""

    status = 3  # of a process that a command begins which tries many pairs


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
