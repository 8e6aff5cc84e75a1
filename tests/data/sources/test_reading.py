"""Files found by path, and their lines, whose length is limited."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from data.errors import UserError
from data.sources.reading import aligned, lines, listed, located, parsed, raw_lines


def test_a_setting_may_be_one_path_several_or_none() -> None:
    assert listed("a") == ["a"] and listed(["a", "b"]) == ["a", "b"] and listed(None) == []


def test_files_of_a_folder_and_of_a_glob_are_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.TXT", "c.pdf", "sub/d.txt"):
        (tmp_path / name).write_text("text")
    names = [path.relative_to(tmp_path).as_posix() for path in located(str(tmp_path), [".txt"], "key")]
    assert names == ["a.TXT", "b.txt", "sub/d.txt"]
    assert [path.name for path in located(str(tmp_path / "*.*"), [".txt"], "key")] == ["a.TXT", "b.txt", "c.pdf"]
    with pytest.raises(UserError, match=r"^key: there is no .*/b\.tx \(did you mean b\.txt\?\)\.$"):
        located(str(tmp_path / "b.tx"), [".txt"], "key")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_are_numbered_and_keep_their_ends(tmp_path: Path, name: str) -> None:
    content = "\ufeffone\r\n\u2028two\x0bthree\n\nfour".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(lines(tmp_path / name)) == [(1, "one\r\n"), (2, "\u2028two\x0bthree\n"), (3, "\n"), (4, "four")]
    assert b"".join(line for _, line in raw_lines(tmp_path / name)) == content


def test_a_line_at_the_limit_is_read_and_a_longer_one_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1234\n12345\n")
    assert len(list(raw_lines(tmp_path / "a.txt", 6))) == 2
    with pytest.raises(UserError, match=r"a\.txt:2: the line is longer than 5 bytes; divide it\.$"):
        list(raw_lines(tmp_path / "a.txt", 5))
    with pytest.raises(UserError, match=r"a\.txt:2: the line is longer than k=5 bytes; divide it or raise k\.$"):
        list(raw_lines(tmp_path / "a.txt", 5, "k"))


def test_aligned_files_must_have_equally_many_lines(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    a.write_text("1\n2\n")
    b.write_text("3\n4")
    c.write_text("5\n6\n7\n8\n")
    assert list(aligned(a, b)) == [(1, ("1\n", "3\n")), (2, ("2\n", "4"))]
    message = rf"^{a} has 2 lines and {b} has 2 and {c} has 4: the numbers must be equal\.$"
    with pytest.raises(UserError, match=message):
        list(aligned(a, b, c))
    with pytest.raises(UserError, match=rf"^{c} has 4 lines and {a} has 2: the numbers must"):
        list(aligned(c, a))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": ', r"^x: not a line of JSON \(Expecting value, column 7\)\.$"),
        pytest.param(
            "[" * 10**5, r"^x: not a line of JSON that can be read \(nested too deep\)\.$", id="nested too deep"
        ),
        pytest.param(
            "9" * 10**4,
            r"^x: not a line of JSON that can be read \(a number of too many digits\)\.$",
            id="too many digits",
        ),
        ("[1]", r"^x: not a JSON object with a field 'a'\.$"),
    ],
)
def test_a_line_that_is_no_json_object_is_refused(line: str, message: str) -> None:
    assert parsed('{"a": 1}', "x", "a field 'a'") == {"a": 1}
    with pytest.raises(UserError, match=message):
        parsed(line, "x", "a field 'a'")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(UserError, match=r"a\.txt: cannot be read after line 0 \(not a file\)\.$"):
        list(raw_lines(tmp_path / "a.txt"))
