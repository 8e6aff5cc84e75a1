"""Inference and translations: the formats of SNLI, MultiNLI and the hub, aligned files, refusals."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from data.errors import UserError
from data.sources.base import Example
from data.sources.pairs import Inference, Parallel
from tests.data.sources.corpora import write_lines

ROWS = [
    ("entailment", "A dog runs.", "An animal moves."),
    ("-", "A dog runs.", "A dog is old."),
    ("neutral", "A dog runs.", "A dog is brown."),
    ("contradiction", "Two cats.", 'One "cat".'),
]
PAIRS = [
    Example(("A dog runs.", "An animal moves."), 0),
    Example(("A dog runs.", "A dog is brown."), 1),
    Example(("Two cats.", 'One "cat".'), 2),
]
HEADERS = [
    "gold_label sentence1_binary_parse sentence1 sentence2 captionID pairID label1 label2",  # SNLI
    "index promptID sentence1 sentence2 label1 gold_label",  # MultiNLI
]
ENGLISH = ["A dog.", "", "Two\u2028cats.", "A bird."]
FRENCH = ["Un chien.", "Rien.", "Deux\x85chats.", " "]


def write_table(path: Path, header: str) -> str:
    rows = [dict(zip(("gold_label", "sentence1", "sentence2"), values, strict=True)) for values in ROWS]
    lines = ["\t".join(row.get(name, "x") for name in header.split()) + "\r" for row in rows]
    return write_lines(path, ["\t".join(header.split()) + "\r", *lines])


def write_aligned(folder: Path, english: list[str] = ENGLISH, french: list[str] = FRENCH) -> dict[str, Any]:
    lines = {"source": (folder / "text.en", english), "target": (folder / "text.fr.gz", french)}
    return {name: write_lines(*pair) for name, pair in lines.items()}


def test_all_formats_of_inference_give_the_same_pairs(tmp_path: Path) -> None:
    rows = [{"gold_label": label, "sentence1": first, "sentence2": second} for label, first, second in ROWS]
    paths = [write_lines(tmp_path / "a.jsonl.gz", rows)]
    paths += [write_table(tmp_path / f"{i}.txt", header) for i, header in enumerate(HEADERS)]
    numbers = {"-": "-1", "entailment": 0, "neutral": 1, "contradiction": 2}
    (tmp_path / "numbers.csv").write_text("label,premise,hypothesis\n")
    with (tmp_path / "numbers.csv").open("a") as file:
        csv.writer(file).writerows((numbers[label], *texts) for label, *texts in ROWS)
    for path in [*paths, str(tmp_path / "numbers.csv")]:
        assert list(Inference(path=path).read()) == PAIRS
    both = Inference(path=paths[:2], dev_path=paths[2])
    assert Counter(example.part for example in both.read()) == {"train": 6, "dev": 3}


def test_aligned_files_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    files, dev = write_aligned(tmp_path), write_aligned(tmp_path / "dev", ["Held out."], ["Gardé."])
    source = Parallel(**files, dev_source=dev["source"], dev_target=dev["target"])
    assert list(source.read()) == [
        Example(("A dog.", "Un chien."), part="train"),
        Example(("Two cats.", "Deux chats."), part="train"),
        Example(("Held out.", "Gardé."), part="dev"),
    ]
    fingerprint = Parallel(**files).fingerprint
    assert fingerprint != Parallel(**write_aligned(tmp_path, french=[*FRENCH[:3], "Un renard."])).fingerprint


def test_languages_or_columns_of_a_table_are_read(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text('1\tA "dog.\tUn chien.\r\n \n2\t\tRien.\n')
    assert list(Parallel(tsv=str(table), columns=(2, 3)).read()) == [Example(('A "dog.', "Un chien."))]
    table.write_text('id\tfr\ten\n1\tUn chien.\tA "dog.\n2\tRien.\t\n')
    assert list(Parallel(path=str(table), languages=("en", "fr")).read()) == [Example(('A "dog.', "Un chien."))]


def test_translations_of_rows_are_read(tmp_path: Path) -> None:
    """Data sets of the hub have such rows; a column may have this name, too."""
    rows = [{"translation": {"de": "Ein Hund.", "en": "A dog."}, "id": 1}]
    paths = write_lines(tmp_path / "a.jsonl", rows), f"{tmp_path}/a.parquet"
    pd.DataFrame(rows).to_parquet(paths[1])
    for path in paths:
        assert list(Parallel(path=path).read()) == [Example(("A dog.", "Ein Hund."))]
    (tmp_path / "a.csv").write_text("text,translation\nA dog.,Ein Hund.\n")
    source = Parallel(path=f"{tmp_path}/a.csv", languages=("text", "translation"))
    assert list(source.read()) == [Example(("A dog.", "Ein Hund."))]


def test_errors_name_the_key_or_the_line(tmp_path: Path) -> None:
    paths = write_aligned(tmp_path)
    row = {"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}
    maybe, short = write_lines(tmp_path / "c.jsonl", [row]), write_lines(tmp_path / "short.txt", ["one line"])
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (Inference, {}, "inference.path"),
        (Inference, {"path": maybe}, f"{maybe}, row 1"),
        (Parallel, {}, "parallel.source"),
        (Parallel, {"source": paths["source"]}, "parallel.target"),
        (Parallel, {"source": str(tmp_path / "none"), "target": short}, "parallel.source"),
        (Parallel, {"tsv": short}, f"{short}, row 1"),
        (Parallel, paths | {"target": short}, f"{paths['source']}, {short}"),
    ]
    for kind, options, key in cases:
        with pytest.raises(UserError) as error:
            list(kind(**options).read())
        assert error.value.key == key
