"""Text files, tables and hub data sets: formats, units, groups, held-out files, documents of several rows."""

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
from data.sources.base import Example
from data.sources.text import Text
from tests.data.sources.hub_rows import COMMIT, Serve, serve
from tests.real_data import suite_data

__all__ = ["serve"]


def texts(source: Text) -> list[str]:
    return [example.texts[0] for example in source.examples()]


def records(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("file", ["one  two\nthree\n\n\n four \nfive\n"]),
        ("paragraph", ["one  two\nthree\n", " four \nfive\n"]),
        ("line", ["one  two\n", "three\n", "\n", "\n", " four \n", "five\n"]),
        (2, ["one  two\n", "three\n\n\n four \n", "five\n"]),
        (1000, ["one  two\nthree\n\n\n four \nfive\n"]),
    ],
    ids=["file", "paragraph", "line", "2 words", "1000 words"],
)
def test_the_document_setting_chooses_the_unit(tmp_path: Path, document: Any, expected: list[str]) -> None:
    (tmp_path / "a.txt").write_text("one  two\nthree\n\n\n four \nfive\n")
    for path, default in ((tmp_path, "file"), (tmp_path / "a.txt", "line")):
        source, without = Text(path=str(path), document=document), Text(path=str(path))
        assert texts(source) == expected
        assert (source.fingerprint == without.fingerprint) == (document == default)


def test_a_folder_of_txt_files_has_one_document_per_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b" / "c.txt.gz").write_bytes(gzip.compress(b"three\nfour\n"))
    (tmp_path / "d.txt").write_bytes(b"\xff\xfe" + "fünf".encode("utf-16-le"))
    (tmp_path / "notes.pdf").write_bytes(b"\0")
    assert texts(Text(path=str(tmp_path))) == ["one\ntwo\n", "three\nfour\n", "fünf"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "tsv.gz"])
def test_columns_of_tables_are_read(tmp_path: Path, ending: str) -> None:
    content = 'id\tbody\nbook/1\t"one" two\n\nx\t\n'
    if ending.startswith("csv"):
        content = 'id,body\r\nbook/1,"""one"", two\nthree"\n\nx,\n'
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(content.encode()) if ending.endswith("gz") else content.encode())
    first = '"one", two\nthree' if ending.startswith("csv") else '"one" two'
    source = Text(path=str(path), field="body", group_field="id")
    assert list(source.examples()) == [Example((first,), group="book"), Example(("",), group="x")]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_fields_and_groups_of_rows_are_read(tmp_path: Path, ending: str) -> None:
    rows = [{"id": "book/1", "body": "one", "n": 1}, {"id": "x", "body": None}, {"id": None, "body": "three"}]
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        content = ("\n" + records(*rows)).encode()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    source = Text(path=str(path), field="body", group_field="id")
    groups = [(example.texts[0], example.group) for example in source.examples()]
    assert groups == [("one", "book"), ("", "x"), ("three", None)]


def test_dev_path_overrides_the_split(tmp_path: Path) -> None:
    for name in ("a", "b", "dev"):
        (tmp_path / f"{name}.jsonl").write_text(records({"text": name}))
    source = Text(path=str(tmp_path / "*.jsonl"), dev_path=str(tmp_path / "dev.jsonl"), dev_fraction=0.9)
    parts = [(example.texts[0], example.part) for example in source.examples()]
    assert parts == [("a", "train"), ("b", "train"), ("dev", "dev")]


def test_the_fingerprint_depends_on_the_text(tmp_path: Path) -> None:
    for name, content in (("one", "same\n"), ("two", "same\n"), ("three", "other\n")):
        (tmp_path / f"{name}.txt").write_text(content)
    one, two, three = (Text(path=str(tmp_path / f"{name}.txt")).fingerprint for name in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".csv"])
def test_reading_progress_rises_to_1(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        text = "text\n" + "".join(f"{name} {random.Random(i).random()}\n" for i in range(20_000))
        content = gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode()
        (tmp_path / f"{name}{ending}").write_bytes(content)
    source = Text(path=str(tmp_path / f"*{ending}"))
    shares = [source.share_read or 0.0 for _ in source.examples()]
    assert shares == sorted(shares) and 0 < shares[0] < 0.4 and source.share_read == 1.0


def test_no_book_is_in_both_parts() -> None:
    pattern = str(suite_data("corpora/standardebooks") / "*.jsonl.gz")
    source = Text(path=pattern, group_field="id", dev_fraction=0.1)
    books: dict[str, set[str | None]] = {"train": set(), "dev": set()}
    for example in source.read():
        books[source.assign_part(example)].add(example.group)
    assert len(books["dev"]) > 3 and len(books["train"]) > 30 and not books["dev"] & books["train"]


def test_by_default_a_row_of_the_hub_is_a_document(serve: Serve) -> None:
    serve([{"id": "a/1", "text": "one"}, {"id": "b/1", "text": "two"}])
    source = Text(dataset="some/set", revision=COMMIT, group_field="id")
    assert list(source.examples()) == [Example(("one",), group="a"), Example(("two",), group="b")]
    others = {"revision": "f" * 40}, {"files": "train/*.parquet"}, {"subset": "de"}, {"split": "test"}
    options: dict[str, Any] = {"dataset": "some/set", "revision": COMMIT, "group_field": "id"}
    assert len({source.fingerprint, *(Text(**options | other).fingerprint for other in others)}) == 5
    assert source.pinned() == {"revision": COMMIT} and COMMIT in source.describe()["where"]


def test_rows_are_joined_to_documents(serve: Serve) -> None:
    rows = ["", " = First = \n", " text \n", " = = Section = = \n", " more \n", " = Second = \n", " end \n"]
    serve([{"text": row} for row in rows])
    source = Text(dataset="some/set", revision=COMMIT, document_start="^ = [^=]+ = $")
    documents = [example.texts[0] for example in source.read()]
    assert documents == ["= First = text = = Section = = more", "= Second = end"] and source.skipped.total() == 1


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": ', "{}:2"),
        ("a.jsonl", b'["x"]\n', "{}:1"),
        ("a.jsonl", b'{"text": 1}\n', "{}:1"),
        ("a.jsonl", b'{"body": "x"}\n', "{}:1"),
        ("a.csv", b'text\n"x', "{}"),
        ("a.tsv", b"text\tid\nx\n", "{}:2"),
        ("a.parquet", b"PAR1", "{}"),
        ("a.txt", b"\xff", "{}"),
        ("a.dat", b"\0", "{}:1"),
        ("a.pdf/b", b"text", "corpus.path"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        texts(Text(path=str(tmp_path / name.split("/")[0])))
    assert error.value.key == place.format(path)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "corpus.path"),
        ({"path": "a", "dataset": "b"}, "corpus.path"),
        ({"path": "{tmp}/a.txt", "dev_path": "{tmp}/*.txt"}, "corpus.path"),
        ({"path": "{tmp}/a.txt", "dev_path": "{tmp}/none"}, "corpus.dev_path"),
        ({"path": "{tmp}/a.txt", "document_start": "("}, "corpus.document_start"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, options: dict[str, str], key: str) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UserError) as error:
        Text(**{name: value.replace("{tmp}", str(tmp_path)) for name, value in options.items()})  # type: ignore[arg-type]
    assert error.value.key == key
