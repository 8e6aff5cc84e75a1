"""Errors that a user can fix: printable lines that name the cause and the place of each fault."""

from __future__ import annotations

import copy

import pytest

from data.errors import LONGEST, UnfitError, UserError, about, readable, reason


def test_each_fault_is_a_printable_line_of_bounded_length() -> None:
    assert str(UserError("one", "two\x1b[31m\n")) == "one\ntwo\\x1b[31m\\n"
    shortened = str(UserError("a" * LONGEST + "b" * LONGEST))
    assert len(shortened) == LONGEST + len(" ... ") and shortened.startswith("aaa") and shortened.endswith("bbb")
    assert str(UserError("a" * LONGEST)) == "a" * LONGEST
    assert UserError("").status == 2


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(PermissionError(13, "Permission denied", "a.txt"), "Permission denied", id="system error"),
        pytest.param(ValueError("first.\nsecond"), "first", id="message of two lines"),
        pytest.param(OSError(), "OSError", id="OSError without a message"),
        pytest.param(KeyError(), "KeyError", id="KeyError without a message"),
    ],
)
def test_a_reason_is_one_line(error: Exception, cause: str) -> None:
    assert reason(error) == cause


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UserError, match=r"^b\.txt cannot be read: Permission denied\.$"), readable("a"):
        raise PermissionError(13, "Permission denied", "b.txt")
    with pytest.raises(UserError, match=r"^a cannot be read: gone\.$"), readable("a"):
        raise OSError("gone")
    with pytest.raises(KeyError), readable("a"):  # a bug, not an unreadable file
        raise KeyError("b")


def test_errors_are_prefixed_with_their_place() -> None:
    with pytest.raises(UserError, match=r"^a\.txt: line 2 is bad\.$"), about("a.txt"):
        raise UnfitError("line 2 is bad.")
    with pytest.raises(ValueError, match=r"^bad$"), about("a.txt"):
        raise ValueError("bad")


def test_lines_survive_pickling_and_a_prefix() -> None:
    error = UserError("one", "two")
    assert str(copy.copy(error)) == "one\ntwo"  # by __reduce__, as pickle does it
    with pytest.raises(UserError, match=r"^file: one\ntwo$"), about("file"):
        raise error
