"""Text files, tables and hub data sets: formats, units, groups, held-out files, documents of several rows."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import datasets
import pytest

from data.errors import UserError
from data.sources.base import Example
from data.sources.text import Text


def texts(source: Text) -> list[str]:
    return [example.texts[0] for example in source.examples()]


@pytest.mark.parametrize(
    ("document", "documents"),
    [
        ("file", ["one  two\nthree\n\n\n four \nfive"]),
        ("paragraph", ["one  two\nthree\n\n\n", " four \nfive\n\n"]),
        ("line", ["one  two\n", "three\n", "\n", "\n", " four \n", "five"]),
        (2, ["one  two\n", "three\n\n\n four \n", "five\n\n"]),
    ],
)
def test_the_document_setting_chooses_the_unit(tmp_path: Path, document: Any, documents: list[str]) -> None:
    (tmp_path / "a.txt").write_text("one  two\nthree\n\n\n four \nfive")
    for path, default in ((tmp_path, "file"), (tmp_path / "a.txt", "line")):
        source = Text(path=str(path), document=document)
        assert texts(source) == documents
        assert (source.fingerprint == Text(path=str(path)).fingerprint) == (document == default)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv.gz", '\nid,body\r\nbook/1,"""one"", two\nthree"\n\nx,\n', '"one", two\nthree'),
        ("a.tsv", 'id\tbody\nbook/1\t"one"\r two\n \nx\t\n', '"one"\r two'),
        ("a.jsonl.gz", '\n{"id": "book/1", "body": "one", "n": 1}\n{"id": "x", "body": null}\n', "one"),
    ],
)
def test_fields_and_groups_of_rows_are_read(tmp_path: Path, name: str, content: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    source = Text(path=str(path), field="body", group_field="id")
    assert list(source.examples()) == [Example((text,), group="book"), Example(("",), group="x")]


def test_splits_of_the_hub_are_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda dataset, *, split, **options: [{"text": split}])
    source = Text(dataset="some/set", revision="0" * 40, dev_split="validation")
    assert list(source.read()) == [Example(("train",), part="train"), Example(("validation",), part="dev")]


@pytest.mark.parametrize(
    ("name", "content", "row"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": ', 2),
        ("a.jsonl", b'{"text": 1}\n', 1),
        ("a.tsv", b"text\tid\nx\n", 1),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, row: int) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        texts(Text(path=str(path)))
    assert error.value.key == f"{path}, row {row}"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"path": "a", "dataset": "b"}, "corpus.path"),
        ({"path": __file__, "dev_path": "none"}, "corpus.dev_path"),
        ({"path": __file__, "document_start": "("}, "corpus.document_start"),
    ],
)
def test_errors_name_the_key(options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        Text(**options)
    assert error.value.key == key
