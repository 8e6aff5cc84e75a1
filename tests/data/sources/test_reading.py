"""Files found by path, and their lines in UTF-8 and UTF-16."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from data.errors import UserError
from data.sources.reading import aligned_lines, find_files, lines, raw_lines

TEXT = "\ufeffone\r\n\u2028two\x0bthree\n\nfour"
LINES = [(1, "one\r\n"), (2, "\u2028two\x0bthree\n"), (3, "\n"), (4, "four")]


def test_files_of_a_folder_and_of_a_glob_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt.gz", "a.TXT", "c.pdf", "sub/d.txt"):
        (tmp_path / name).write_text("text")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files(str(tmp_path), [".txt"], "key")]
    assert names == ["a.TXT", "b.txt.gz", "sub/d.txt"]
    monkeypatch.setenv("HOME", str(tmp_path))
    several = find_files(["~/c.pdf", f"{tmp_path}/*.*", f"{tmp_path}/**/d*"], [".txt"], "key")
    assert [path.name for path in several] == ["c.pdf", "a.TXT", "b.txt.gz", "d.txt"]
    assert find_files(None, [".txt"], "key") == []


def test_a_path_without_files_names_its_key(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "b.tx", tmp_path / "*.pdf", f"{tmp_path}/\0"):
        with pytest.raises(UserError) as error:
            find_files(str(path), [".txt"], "key")
        assert error.value.key == "key"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.zip"])
def test_lines_are_numbered_and_keep_their_ends(tmp_path: Path, name: str, encoding: str) -> None:
    content = TEXT.encode(encoding)
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.txt", content)
    else:
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(lines(tmp_path / name)) == LINES
    assert b"".join(line for _, line in raw_lines(tmp_path / name)) == content


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", b"text\n\xff\n", ""),
        ("a.txt", "text".encode("utf-16-le"), ":1"),  # without a byte order mark
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
    assert list(aligned_lines(a, b)) == [("1\n", "3\n"), ("2\n", "4")]
    with pytest.raises(UserError):
        list(aligned_lines(a, c))
