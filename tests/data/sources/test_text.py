"""Text files: formats, groups, held-out files, and refusals."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from data.errors import UserError
from data.sources.base import Document, Part, part_of, split_hash
from data.sources.pydocs import Pydocs
from data.sources.text import Text
from tests.real_data import suite_data

PARTS: tuple[Part, ...] = ("train", "dev")


def texts(source: Text) -> list[str]:
    return [document.text for document in source.documents()]


def records(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_a_txt_file_has_one_document_per_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone  two\nthree\n\nfour", encoding="utf-8")
    assert texts(Text(path=str(tmp_path / "a.txt"))) == ["one  two\n", "three\n", "\n", "four"]


@pytest.mark.parametrize(
    ("document", "expected", "unit"),
    [
        ("file", ["one  two\nthree\n\n\n four \nfive\n"], "file"),
        ("paragraph", ["one  two\nthree\n\n", "\n four \nfive\n"], "paragraph"),
        ("line", ["one  two\n", "three\n", "\n", "\n", " four \n", "five\n"], "line"),
        (2, ["one  two\n", "three\n\n\n four \n", "five\n"], 2),
        (1000, ["one  two\nthree\n\n\n four \nfive\n"], 1000),
    ],
    ids=["file", "paragraph", "line", "2 words", "1000 words"],
)
def test_the_document_setting_chooses_file_or_line(
    tmp_path: Path, document: Any, expected: list[str], unit: str | int
) -> None:
    (tmp_path / "a.txt").write_text("".join(expected))
    for path in (tmp_path, tmp_path / "a.txt"):
        source = Text(path=str(path), document=document)
        assert texts(source) == expected and source.document_units == (unit,)


def test_by_default_a_folder_has_a_document_per_file_and_a_file_one_per_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    kinds: list[Any] = ["file", "line", "paragraph", 2, 3]
    for path, kind in ((tmp_path, kinds[0]), (tmp_path / "a.txt", kinds[1])):
        default, named = Text(path=str(path)), Text(path=str(path), document=kind)
        assert texts(default) == texts(named) and default.fingerprint == named.fingerprint
    assert len({Text(path=str(tmp_path), document=kind).fingerprint for kind in kinds}) == len(kinds)


def test_a_folder_of_txt_files_has_one_document_per_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b" / "c.txt.gz").write_bytes(gzip.compress(b"three\nfour\n"))
    (tmp_path / "d.txt").write_text("")
    (tmp_path / "notes.pdf").write_bytes(b"\0")
    assert texts(Text(path=str(tmp_path))) == ["one\ntwo\n", "three\nfour\n", ""]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "tsv.gz"])
def test_columns_of_tables_are_read(tmp_path: Path, ending: str) -> None:
    content = 'id\tbody\nbook/1\t"one" two\n\nx\t\n'
    if ending.startswith("csv"):
        content = 'id,body\r\nbook/1,"""one"", two\nthree"\n\nx,\n'
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(content.encode()) if ending.endswith("gz") else content.encode())
    first = '"one", two\nthree' if ending.startswith("csv") else '"one" two'
    source = Text(path=str(path), field="body", group_field="id")
    assert list(source.documents()) == [Document(first, "book"), Document("", "x")]
    assert source.document_units == ()
    with pytest.raises(UserError):
        texts(Text(path=str(path)))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_fields_and_groups_of_json_lines_are_read(tmp_path: Path, ending: str) -> None:
    rows = [
        {"id": "book/1", "body": "one", "n": 1},
        {"id": "book/2", "body": "two", "n": 2},
        {"id": "x", "body": None},
        {"id": None, "body": "three"},
    ]
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        content = ("\n" + records(*rows)).encode()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    source = Text(path=str(path), field="body", group_field="id")
    assert list(source.documents()) == [
        Document("one", "book"),
        Document("two", "book"),
        Document("", "x"),
        Document("three", None),
    ]


def test_paths_may_be_globs_lists_and_below_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt"):
        (tmp_path / name).write_text(name)
    assert texts(Text(path="*.txt")) == ["a.txt", "b.txt"]
    assert texts(Text(path=str(tmp_path / "**" / "*.txt"))) == ["a.txt", "b.txt", "sub/c.txt"]
    assert texts(Text(path=["sub/../sub/*.txt", "~/a.txt"])) == ["sub/c.txt", "a.txt"]


def test_dev_path_overrides_the_split(tmp_path: Path) -> None:
    for name in ("a", "b", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(records({"text": name}))
    source = Text(path=str(tmp_path / "*.jsonl"), dev_path=str(tmp_path / "dev.jsonl"), dev_fraction=0.9)
    assert list(source.documents()) == [
        Document("a", None, "train"),
        Document("b", None, "train"),
        Document("dev", None, "dev"),
    ]
    with pytest.raises(UserError):
        Text(path=str(tmp_path / "dev.jsonl"), dev_path=str(tmp_path / "dev.jsonl"))


def test_pydocs_can_be_added_and_keep_their_own_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(records({"text": name}))
    monkeypatch.setattr(Pydocs, "documents", lambda self: iter([Document("box")]))
    monkeypatch.setattr(Pydocs, "identity", lambda self: iter(["version"]))
    files: dict[str, Any] = {"path": str(tmp_path / "a.jsonl"), "dev_path": str(tmp_path / "dev.jsonl")}
    source = Text(**files, pydocs=True)
    assert list(source.documents()) == [
        Document("a", None, "train"),
        Document("dev", None, "dev"),
        Document("box"),  # without a part: the hash decides, as in the corpus pydocs
    ]
    assert source.fingerprint != Text(**files).fingerprint
    assert source.describe()["where"].endswith("a.jsonl, pydocs")


def test_the_fingerprint_depends_on_the_text(tmp_path: Path) -> None:
    for folder, content in (("one", "same\n"), ("two", "same\n"), ("three", "other\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(content)
    one, two, three = (Text(path=str(tmp_path / name / "a.txt")).fingerprint for name in ("one", "two", "three"))
    assert one == two != three
    assert Text(path=str(tmp_path / "one")).fingerprint != one  # one document per file, not per line


def test_no_book_is_in_both_parts() -> None:
    pattern = str(suite_data("corpora/standardebooks") / "*.jsonl.gz")
    books: dict[str, set[str]] = {"train": set(), "dev": set()}
    for document in Text(path=pattern, group_field="id").documents():
        assert document.group is not None and "/" not in document.group
        books[part_of(document.part, split_hash(document.group, document.text), 0.1)].add(document.group)
    assert len(books["dev"]) > 3 and len(books["train"]) > 30
    assert not books["dev"] & books["train"]


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".csv"])
def test_reading_progress_rises_to_1(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        text = "text\n" + "".join(f"{name} {random.Random(i).random()}\n" for i in range(50_000))
        content = gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode()
        (tmp_path / f"{name}{ending}").write_bytes(content)
    source = Text(path=str(tmp_path / f"*{ending}"))
    shares = [source.share_read or 0.0 for _ in source.documents()]
    assert shares == sorted(shares) and 0 < shares[0] < 0.3 and source.share_read == 1.0
    assert abs(shares[len(shares) // 2] - 0.5) < 0.2  # gzip reads ahead: since Python 3.12 by 128 KiB
    assert Text(path=str(tmp_path / f"a{ending}"), pydocs=True).share_read is None


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": ', "{}:2"),
        ("a.jsonl", b'{"text": 1}\n', "{}:1"),
        ("a.jsonl", b'{"body": "x"}\n', "corpus.field"),
        ("a.csv", b'text\n"x', "{}"),
        ("a.tsv", b"text\tid\nx\n", "{}:2"),
        ("a.parquet", b"PAR1", "{}"),
        ("a.txt", b"\xff", "{}:1"),
        ("a.txt", b"x" * 101, "{}:1"),
        ("a.txt.gz", b"text", "{}"),
        ("a.dat", b"text", "corpus.path"),
        ("a.pdf/b", b"text", "corpus.path"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        texts(Text(path=str(tmp_path / name.split("/")[0]), max_bytes=100))
    assert error.value.key == place.format(path)


def test_nothing_may_be_left_for_training(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UserError) as error:
        Text(path=str(tmp_path / "a.txt"), dev_path=str(tmp_path / "*.txt"))
    assert error.value.key == "corpus.path"
