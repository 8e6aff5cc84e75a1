"""Files found by path, and their lines, whose length is limited."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from data.errors import UserError
from data.sources.reading import aligned_lines, find_file, find_files, lines, parse_object, raw_lines


def test_files_of_a_folder_and_of_a_glob_are_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.TXT", "c.pdf", "sub/d.txt"):
        (tmp_path / name).write_text("text")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files(str(tmp_path), [".txt"], "key")]
    assert names == ["a.TXT", "b.txt", "sub/d.txt"]
    several = find_files([str(tmp_path / "c.pdf"), str(tmp_path / "*.*")], [".txt"], "key")
    assert [path.name for path in several] == ["c.pdf", "a.TXT", "b.txt"]
    assert find_files(None, [".txt"], "key") == []
    assert find_file(str(tmp_path / "b.txt"), [".txt"], "key") == tmp_path / "b.txt"


def test_a_path_without_files_names_its_key(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("text")
    for path in (tmp_path / "b.tx", tmp_path / "*.pdf", f"{tmp_path}/\0"):
        with pytest.raises(UserError) as error:
            find_files(str(path), [".txt"], "key")
        assert error.value.key == "key"
    with pytest.raises(UserError) as error:
        find_file(str(tmp_path), [".txt"], "key")
    assert error.value.key == "key"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.zip"])
def test_lines_are_numbered_and_keep_their_ends(tmp_path: Path, name: str) -> None:
    content = "\ufeffone\r\n\u2028two\x0bthree\n\nfour".encode()
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.txt", content)
    else:
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(lines(tmp_path / name)) == [(1, "one\r\n"), (2, "\u2028two\x0bthree\n"), (3, "\n"), (4, "four")]
    assert b"".join(line for _, line in raw_lines(tmp_path / name)) == content


def test_a_line_at_the_limit_is_read_and_a_longer_one_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1234\n12345\n")
    assert len(list(raw_lines(tmp_path / "a.txt", 6))) == 2
    with pytest.raises(UserError) as error:
        list(raw_lines(tmp_path / "a.txt", 5))
    assert error.value.key == f"{tmp_path / 'a.txt'}:2"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", b"text\n\xff\n", ":2"),
        ("a.txt", b"text\nt\0xt\n", ":2"),
        ("a.txt.gz", gzip.compress(b"text\n" * 9999)[:-9], ""),
        ("a.gz", b"text", ""),
        ("a.zip", b"text", ""),
    ],
)
def test_a_file_that_is_not_text_names_the_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        list(lines(tmp_path / name))
    assert error.value.key == f"{tmp_path / name}{place}"


def test_aligned_files_must_have_equally_many_lines(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    a.write_text("1\n2\n")
    b.write_text("3\n4")
    c.write_text("5\n6\n7\n8\n")
    assert list(aligned_lines(a, b)) == [(1, ("1\n", "3\n")), (2, ("2\n", "4"))]
    with pytest.raises(UserError):
        list(aligned_lines(a, c))


@pytest.mark.parametrize("line", ['{"a": ', "[" * 10**5, "9" * 10**4, "[1]"])
def test_a_line_that_is_no_json_object_is_refused(line: str) -> None:
    assert parse_object('{"a": 1}', "x:1") == {"a": 1}
    with pytest.raises(UserError) as error:
        parse_object(line, "x:1")
    assert error.value.key == "x:1"
