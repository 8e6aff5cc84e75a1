"""Errors that a user can fix: lines fit for a terminal, with their cause and their place."""

from __future__ import annotations

import copy

import pytest

from data.errors import LONGEST, UnfitError, UserError, about, readable, reason


def test_each_fault_is_a_printable_line_of_bounded_length() -> None:
    assert str(UserError("one", "two\x1b[31m\n")) == "one\ntwo\\x1b[31m\\n"
    found = str(UserError("a" * LONGEST + "b" * LONGEST))
    assert len(found) == LONGEST + len(" ... ") and found.startswith("aaa") and found.endswith("bbb")
    assert str(UserError("a" * LONGEST)) == "a" * LONGEST
    assert UserError("").status == 2


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (PermissionError(13, "Permission denied", "a.txt"), "Permission denied"),
        (ValueError("first.\nsecond"), "first"),
        (OSError(), "OSError"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_reason_is_one_line(error: Exception, cause: str) -> None:
    assert reason(error) == cause


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UserError, match=r"^b\.txt cannot be read: Permission denied\.$"), readable("a"):
        raise PermissionError(13, "Permission denied", "b.txt")
    with pytest.raises(UserError, match=r"^a cannot be read: gone\.$"), readable("a"):
        raise OSError("gone")
    with pytest.raises(KeyError), readable("a"):  # which is a fault of the program
        raise KeyError("b")


def test_errors_are_prefixed_with_their_place() -> None:
    with pytest.raises(UserError, match=r"^a\.txt: line 2 is bad\.$"), about("a.txt"):
        raise UnfitError("line 2 is bad.")
    with pytest.raises(ValueError, match=r"^bad$"), about("a.txt"):
        raise ValueError("bad")


def test_lines_survive_pickling_and_a_prefix() -> None:
    error = UserError("one", "two")
    assert str(copy.copy(error)) == "one\ntwo"  # as a pool of processes passes it on
    with pytest.raises(UserError, match=r"^file: one\ntwo$"), about("file"):
        raise error
