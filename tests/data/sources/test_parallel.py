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
    with pytest.raises(UserError):
        list(Parallel(**options, languages=["en", "fr"]).read())
    monkeypatch.setattr(hub, "unreachable", lambda: "no network")
    with pytest.raises(UserError):
        list(Parallel(**options).read())


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


def test_errors_name_the_key_or_the_files(tmp_path: Path) -> None:
    paths = write_files(tmp_path)
    (tmp_path / "short.txt").write_text("one line\n")
    (tmp_path / "a.tsv").write_text("one\ttwo\none\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "parallel.source"),
        ({"source": paths["source"]}, "parallel.source"),
        (paths | {"tsv": "a.tsv"}, "parallel.source"),
        (paths | {"dev_source": "a"}, "parallel.dev_source"),
        (paths | {"dev_split": "validation"}, "parallel.dev_split"),
        (paths | {"source": f"{tmp_path}/text.em"}, "parallel.source"),
        (paths | {"source": f"{tmp_path}/*"}, "parallel.source"),
        (paths | {"target": f"{tmp_path}/short.txt"}, f"{paths['source']}, {tmp_path}/short.txt"),
        ({"tsv": f"{tmp_path}/a.tsv"}, "parallel.columns"),
    ]
    for options, key in cases:
        with pytest.raises(UserError) as error:
            list(Parallel(**options).read())
        assert error.value.key == key
