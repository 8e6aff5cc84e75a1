"""Files found by path, and their lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from data.errors import UserError
from data.sources.reading import find_files, lines
from data.sources.text import Text

TEXT = "\ufeffone\r\n\u2028two\x0bthree\n\nfour"
LINES = ["one\r\n", "\u2028two\x0bthree\n", "\n", "four"]


def test_files_of_a_folder_and_of_a_glob_are_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.txt.gz", "a.TXT", "c.pdf", "sub/d.txt"):
        (tmp_path / name).write_text("text")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files(str(tmp_path), [".txt"], "key")]
    assert names == ["a.TXT", "b.txt.gz", "sub/d.txt"]
    several = find_files([f"{tmp_path}/c.pdf", f"{tmp_path}/*.*", f"{tmp_path}/**/d*"], [".txt"], "key")
    assert [path.name for path in several] == ["c.pdf", "a.TXT", "b.txt.gz", "d.txt"]
    with pytest.raises(UserError) as error:
        find_files(f"{tmp_path}/*.tx", [".txt"], "key")
    assert error.value.key == "key"


def test_a_bundled_sample_is_found_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Text(path="data/samples/prose.jsonl.gz", group_field="id", dev_fraction=0.2)
    examples = list(source.read())
    held_out = {example.group for example in examples if source.assign_part(example) == "dev"}
    assert len(examples) == 77 and held_out == {"charles-babbage", "john-muir", "joshua-slocum"}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_keep_their_ends(tmp_path: Path, name: str) -> None:
    content = TEXT.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(lines(tmp_path / name)) == LINES


@pytest.mark.parametrize("content", [b"text\n\xff\n", "text".encode("utf-16-le"), "text".encode("utf-16")])
def test_a_file_that_is_not_text_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError) as error:
        list(lines(tmp_path / "a.txt"))
    assert error.value.key == str(tmp_path / "a.txt")
