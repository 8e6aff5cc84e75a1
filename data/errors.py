"""Errors that the user can fix, each shown by the command as one line: ``key: text. hint``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten

from pydantic import ValidationError


class UserError(Exception):
    """An error that the user can fix; a command prints it as one line and ends with status 2.

    Args:
        text: what is wrong, without a full stop.
        key: configuration key, file or folder that it is about.
        hint: a sentence on what to do.
    """

    status = 2

    def __init__(self, text: str, *, key: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.text, self.key, self.hint = text, key, hint
        self.errors: Sequence[UserError] = (self,)  # the single errors that this one stands for

    def __str__(self) -> str:
        line = f"{self.key}: {self.text}" if self.key else self.text
        if not line.endswith((".", "?")):
            line += "."
        return f"{line} {self.hint}".strip()


class UserErrors(UserError):
    """Several errors, shown together, a line each."""

    def __init__(self, errors: Sequence[UserError]) -> None:
        super().__init__("several errors")
        self.args = (errors,)  # with which a copy in another process is made
        self.errors = tuple(single for error in errors for single in error.errors)

    def __str__(self) -> str:
        return "\n".join(dict.fromkeys(map(str, self.errors)))


class UnfitError(UserError):
    """An objective that cannot train this encoder with the settings of both."""


def reason(error: BaseException) -> str:
    """Returns an error's message in one line, cut if long and without a full stop, or its class's name."""
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return ": ".join(filter(None, [".".join(map(str, fault["loc"])), fault["msg"]]))
    message = (isinstance(error, OSError) and error.strerror) or str(error)
    return shorten(message or type(error).__name__, 500).rstrip(".:")


@contextmanager
def reading(what: str, path: Path | str) -> Iterator[None]:
    """Turns any error of a parser, or of a shape that does not fit, into one line about ``path``.

    Args:
        what: the kind of content that is expected, as "encoder" or "run configuration".
        path: the file or folder that is read.

    Raises:
        UserError: "<path>: not a readable <what> (the cause)".
    """
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of Rust code (tokenizers, safetensors) are no Exception
        raise UserError(f"not a readable {what} ({reason(error)})", key=str(path)) from error


@contextmanager
def rename_keys(**names: str) -> Iterator[None]:
    """Gives the keys of errors the names that they have in a larger configuration.

    ``rename_keys(corpus="corpus.corpora.books")`` makes "corpus.corpora.books.path" of "corpus.path".

    Args:
        names: new name of each first part of a key.
    """
    try:
        yield
    except UserError as error:
        for single in error.errors:
            first, dot, rest = single.key.partition(".")
            single.key = f"{names.get(first, first)}{dot}{rest}"
        raise
