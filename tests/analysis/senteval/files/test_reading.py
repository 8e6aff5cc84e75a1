"""Lines break as in an open text file; error messages name the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.senteval.files.reading import Line, lines, stream
from data.errors import UserError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.txt"


@given(
    text=st.text(st.sampled_from("ab \t\n\r\x0b\x0c\x1c\x1e\x85\xa0\u2028é")).filter(str.strip),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_lines_equal_those_of_an_open_file(file: Path, text: str, encoding: str) -> None:
    raw = text.encode(encoding, errors="replace")
    if not raw.strip():
        return
    file.write_bytes(raw)
    with file.open(encoding=encoding) as opened:
        expected = [line.removesuffix("\n") for line in opened]
    found = lines(file, encoding)
    assert [line.text for line in found] == expected
    assert [line.where for line in found] == [f"{file}:{number + 1}" for number in range(len(expected))]


def test_byte_order_mark_and_crlf_are_removed(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\x85\r\n\r\nthree")
    assert [line.text for line in lines(file, "latin-1")] == ["one", "two\x85", "", "three"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="no bytes"),
        pytest.param(b"\xef\xbb\xbf", id="byte order mark"),
        pytest.param(b" \r\n\n", id="blank lines"),
    ],
)
def test_empty_file_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(UserError) as refusal:
        lines(file)
    assert str(refusal.value) == f"{file} is empty."


def test_wrong_encoding_names_the_line(file: Path) -> None:
    file.write_bytes("\ufeffone\r\ntwo\r\n".encode() + "naïve\n".encode("latin-1"))
    with pytest.raises(UserError) as refusal:
        lines(file)
    assert str(refusal.value) == f"{file}:3: not UTF-8 text (invalid continuation byte)."


def test_missing_file_is_one_line(file: Path) -> None:
    with pytest.raises(UserError, match=r"x\.txt cannot be read: No such file or directory\.$"):
        lines(file)


def test_columns_are_split_by_tabs_and_counted() -> None:
    line = Line("f:7", "a\tb c\t")
    assert line.columns(3, "") == ["a", "b c", ""]
    with pytest.raises(UserError) as refusal:
        line.columns(4, "four words, by tabs")
    assert str(refusal.value) == "f:7: a line must be four words, by tabs. Got 3 of 4 columns."


def test_labels_outside_the_classes_are_refused() -> None:
    line = Line("f:7", "")
    assert line.label("b", {"a": 0, "b": 1}) == 1
    with pytest.raises(UserError) as refusal:
        line.label("c", {"a": 0, "b": 1})
    assert str(refusal.value) == "f:7: label 'c' is none of a, b."
    with pytest.raises(UserError, match=r"none of w0, .*, w19, \.\.\.\.$"):
        line.label("c", {f"w{number}": number for number in range(1000)})


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "0.99", "5.01"])
def test_scores_that_are_no_numbers_are_refused(text: str) -> None:
    line = Line("f:7", "")
    assert [line.score(valid, 1, 5) for valid in ("1", "5.0", "3.25")] == [1, 5, 3.25]
    with pytest.raises(UserError) as refusal:
        line.score(text, 1, 5)
    assert str(refusal.value) == f"f:7: score {text!r} is no number from 1 to 5."


def test_a_damaged_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K")
    with pytest.raises(UserError, match=r"x\.gz: cannot be read after line 0"):
        list(stream(tmp_path / "x.gz"))
