"""Translations: aligned files, tables, hub data sets, and refusals."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest

from data.errors import UserError
from data.pairs import EMPTY, Pair, prepare_pairs
from data.sources import hub
from data.sources.parallel import Parallel
from data.vocabulary import train_word_level
from tests.real_data import suite_data

COMMIT = "0123456789" * 4
ENGLISH = ["A dog.", "", "Two cats.", "A bird."]
FRENCH = ["Un chien.", "Rien.", "Deux chats.", " "]


def write_files(folder: Path, english: list[str] = ENGLISH, french: list[str] = FRENCH) -> dict[str, Any]:
    (folder / "text.en").write_text("".join(f"{line}\n" for line in english), encoding="utf-8")
    with gzip.open(folder / "text.fr.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(french))
    return {"source": str(folder / "text.en"), "target": str(folder / "text.fr.gz")}


def test_aligned_files_are_read_line_by_line(tmp_path: Path) -> None:
    source = Parallel(**write_files(tmp_path))
    expected = [Pair(("A dog.",), "Un chien."), Pair(("Two cats.",), "Deux chats.")]
    assert list(source.read()) == expected and source.skipped == {EMPTY: 2}
    assert list(source.read()) == expected and source.skipped == {EMPTY: 2}  # each reading starts a new count
    assert source.fingerprint == Parallel(**write_files(tmp_path)).fingerprint
    assert source.fingerprint != Parallel(**write_files(tmp_path, [*ENGLISH[:3], "A fox."])).fingerprint


def test_held_out_pairs_may_have_their_own_files(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    dev: dict[str, Any] = {
        f"dev_{side}": path for side, path in write_files(tmp_path / "dev", ["Held out."], ["Gardé."]).items()
    }
    pairs = list(Parallel(**write_files(tmp_path), **dev).read())
    assert [(pair.target, pair.part) for pair in pairs] == [
        ("Un chien.", "train"),
        ("Deux chats.", "train"),
        ("Gardé.", "dev"),
    ]


@pytest.mark.parametrize(
    ("english", "counts"),
    [(ENGLISH[:2], "2 lines and .* 4"), (ENGLISH * 2, "8 lines and .* 4")],
    ids=["shorter", "longer"],
)
def test_files_of_different_lengths_are_refused(tmp_path: Path, english: list[str], counts: str) -> None:
    source = Parallel(**write_files(tmp_path, english))
    with pytest.raises(UserError, match=rf"^.*text\.en has {counts}: the numbers must be equal\.$"):
        list(source.read())


def test_unicode_line_separators_do_not_end_a_line(tmp_path: Path) -> None:
    source = Parallel(**write_files(tmp_path, ["one\u2028two", "three"], ["un\x85deux", "trois"]))
    assert [pair.sources for pair in source.read()] == [("one two",), ("three",)]


def test_columns_of_a_table_are_read(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text('1\tA "dog.\tUn chien.\r\n\n2\t\tRien.\n', encoding="utf-8")
    source = Parallel(tsv=str(table), columns=[2, 3])
    assert list(source.read()) == [Pair(('A "dog.',), "Un chien.")] and source.skipped == {EMPTY: 2}
    assert source.fingerprint != Parallel(tsv=str(table), columns=[3, 2]).fingerprint
    with pytest.raises(
        UserError,
        match=r"pairs\.tsv:1: parallel\.columns asks for column 4, and the line has 3, separated by tabs",
    ):
        list(Parallel(tsv=str(table), columns=[2, 4]).read())


def test_rows_of_a_hub_data_set_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(dataset: str, subset: str | None, *, split: str, **options: Any) -> datasets.IterableDataset:
        assert (dataset, subset, options["streaming"], options["revision"]) == ("wmt/wmt14", "de-en", True, COMMIT)
        rows = [{"translation": {"de": f"Ein Hund, {split}.", "en": f"A dog, {split}."}}]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(hub, "unreachable", lambda: None)
    monkeypatch.setattr(datasets, "load_dataset", load)
    options: dict[str, Any] = {"dataset": "wmt/wmt14", "subset": "de-en", "revision": COMMIT}
    source = Parallel(**options, dev_split="validation")
    assert list(source.read()) == [
        Pair(("A dog, train.",), "Ein Hund, train.", "train"),
        Pair(("A dog, validation.",), "Ein Hund, validation.", "dev"),
    ]
    assert [pair.part for pair in Parallel(**options).read()] == [None]
    assert COMMIT in source.describe()["where"] and source.fingerprint != Parallel(**options).fingerprint
    with pytest.raises(
        UserError, match=r"row 1: parallel\.languages=\['en', 'fr'\] must be keys .* Got de, en instead"
    ):
        list(Parallel(**options, languages=["en", "fr"]).read())
    monkeypatch.setattr(hub, "unreachable", lambda: "no network")
    with pytest.raises(UserError, match=r"^parallel\.dataset=wmt/wmt14: no network; two line-aligned files"):
        list(Parallel(**options).read())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^parallel\.source and parallel\.target, parallel\.tsv or parallel\.dataset must be set\."),
        ({"tsv": "a", "dataset": "b"}, r"parallel\.dataset must be set\. Got none or several"),
        ({"source": "a"}, r"^parallel\.source and parallel\.target go together\."),
        ({"dataset": "a", "dev_target": "b"}, r"^parallel\.dev_source and parallel\.dev_target go together\."),
        ({"tsv": "a", "dev_split": "b"}, r"^parallel\.dev_split is for a parallel\.dataset\."),
        (
            {"tsv": "a", "columns": [0, 1]},
            r"^parallel\.columns must be at least 1\. Got \[0, 1\] instead\.$",
        ),
        (
            {"dataset": "a", "languages": ["en"]},
            r"^parallel\.languages must have at least 2 values\. Got \['en'\] instead\.$",
        ),
    ],
    ids=str,
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parallel(**options)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    paths = write_files(tmp_path)
    with pytest.raises(
        UserError, match=r"^parallel\.source: there is no .*text\.em \(did you mean text\.en\?\)\.$"
    ):
        Parallel(source=f"{tmp_path}/text.em", target=paths["target"])


@pytest.mark.parametrize("language", ["fr", "de"])
def test_pairs_of_multi30k(tmp_path: Path, language: str) -> None:
    folder = suite_data("parallel/multi30k")
    names = {
        "source": "val.en",
        "target": f"val.{language}",
        "dev_source": "test.en",
        "dev_target": f"test.{language}",
    }
    paths: dict[str, Any] = {key: str(folder / f"{name}.gz") for key, name in names.items()}
    source = Parallel(**paths)
    pairs = list(source.read())
    assert Counter(pair.part for pair in pairs) == {"train": 1014, "dev": 1000} and not source.skipped
    assert pairs[0].sources == ("A group of men are loading cotton onto a truck",)
    tokenizer = train_word_level(
        (pair.sources[0] for pair in pairs[:500]), vocab_size=900, min_count=2, max_length=90
    )
    store = prepare_pairs(source, tokenizer, tokenizer, cache=tmp_path)
    assert len(store.select("dev").indices) == 1000
    assert str(tokenizer.decode(store[0].sources[0])).startswith("A group of men are")
