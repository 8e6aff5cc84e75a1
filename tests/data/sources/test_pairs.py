"""Inference and translations: the formats of SNLI, MultiNLI and the hub, aligned files, refusals."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data.errors import UserError
from data.sources.base import EMPTY, Example
from data.sources.pairs import NO_CLASS, Inference, Parallel
from tests.data.sources.hub_rows import COMMIT, Serve, serve
from tests.real_data import suite_data

__all__ = ["serve"]
ROWS = [
    ("entailment", "A dog runs.", "An animal moves."),
    ("-", "A dog runs.", "A dog is old."),
    ("neutral", "A dog runs.", "A dog is brown."),
    ("contradiction", "Two cats.", 'One "cat".'),
]
EXPECTED = [
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


def write_jsonl(path: Path) -> Path:
    lines = [json.dumps({"gold_label": label, "sentence1": one, "sentence2": two}) for label, one, two in ROWS]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_table(path: Path, header: str) -> Path:
    names = header.split()
    rows = [dict(zip(("gold_label", "sentence1", "sentence2"), values, strict=True)) for values in ROWS]
    lines = ["\t".join(names), *["\t".join(row.get(name, "x") for name in names) for row in rows]]
    path.write_text("\r\n".join(lines), encoding="utf-8")
    return path


def write_aligned(folder: Path, english: list[str] = ENGLISH, french: list[str] = FRENCH) -> dict[str, Any]:
    (folder / "text.en").write_text("".join(f"{line}\n" for line in english), encoding="utf-8")
    with gzip.open(folder / "text.fr.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(french))
    return {"source": str(folder / "text.en"), "target": str(folder / "text.fr.gz")}


def test_all_formats_of_inference_give_the_same_pairs(tmp_path: Path) -> None:
    paths = [write_jsonl(tmp_path / "a.jsonl"), write_jsonl(tmp_path / "b.jsonl.gz")]
    paths += [write_table(tmp_path / f"{i}.txt", header) for i, header in enumerate(HEADERS)]
    for path in paths:
        source = Inference(path=str(path))
        assert list(source.read()) == EXPECTED and source.skipped == {NO_CLASS: 1}
    assert len({Inference(path=str(path)).fingerprint for path in paths}) == len(paths)
    both = Inference(path=[str(path) for path in paths[:2]], dev_path=str(paths[2]))
    assert Counter(example.part for example in both.read()) == {"train": 6, "dev": 3}


def test_inference_of_the_hub_is_read(serve: Serve) -> None:
    serve([{"premise": "p", "hypothesis": "h", "label": label} for label in (2, -1)])
    source = Inference(dataset="stanfordnlp/snli", dev_split="validation", revision=COMMIT)
    assert list(source.read()) == [Example(("p", "h"), 2, part="train"), Example(("p", "h"), 2, part="dev")]
    assert source.skipped == {NO_CLASS: 2}


def test_pairs_of_real_files() -> None:
    folder = suite_data("nli")
    source = Inference(path=str(folder / "multinli_dev.jsonl.gz"), dev_path=str(folder / "dev.jsonl.gz"))
    counts = Counter((example.part, example.label) for example in source.read())
    assert [counts["train", label] for label in range(3)] == [2822, 2161, 2744]
    assert [counts["dev", label] for label in range(3)] == [3329, 3235, 3278]


def test_aligned_files_are_read_line_by_line(tmp_path: Path) -> None:
    source = Parallel(**write_aligned(tmp_path))
    expected = [Example(("A dog.", "Un chien.")), Example(("Two cats.", "Deux chats."))]
    assert list(source.read()) == expected and source.skipped == {EMPTY: 2}
    before = source.fingerprint
    assert before != Parallel(**write_aligned(tmp_path, french=[*FRENCH[:3], "Un renard."])).fingerprint


def test_held_out_translations_may_have_their_own_files(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    dev = write_aligned(tmp_path / "dev", ["Held out."], ["Gardé."])
    source = Parallel(
        **write_aligned(tmp_path), dev_source=dev["source"], dev_target=dev["target"], languages=["en", "fr"]
    )
    parts = [(example.texts[1], example.part) for example in source.read()]
    assert parts == [("Un chien.", "train"), ("Deux chats.", "train"), ("Gardé.", "dev")]


def test_columns_of_a_table_are_read(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text('1\tA "dog.\tUn chien.\r\n2\t\tRien.\n', encoding="utf-8")
    source = Parallel(tsv=str(table), columns=[2, 3])
    assert list(source.read()) == [Example(('A "dog.', "Un chien."))] and source.skipped == {EMPTY: 1}
    assert source.fingerprint != Parallel(tsv=str(table), columns=[3, 2]).fingerprint
    table.write_text("id\tfr\ten\n1\tUn chien.\tA dog.\n")
    source = Parallel(path=str(table), languages=["en", "fr"])
    assert list(source.read()) == [Example(("A dog.", "Un chien."))]


def test_translations_of_the_hub_are_read(serve: Serve) -> None:
    serve([{"translation": {"de": "Ein Hund.", "en": "A dog."}}])
    options: dict[str, Any] = {"dataset": "wmt/wmt14", "subset": "de-en", "revision": COMMIT}
    source = Parallel(**options, dev_split="validation")
    assert [(example.texts, example.part) for example in source.read()] == [
        (("A dog.", "Ein Hund."), "train"),
        (("A dog.", "Ein Hund."), "dev"),
    ]
    assert source.fingerprint != Parallel(**options).fingerprint
    with pytest.raises(UserError):
        list(Parallel(**options, languages=["en", "fr"]).read())


@pytest.mark.parametrize("language", ["fr", "de"])
def test_pairs_of_multi30k(language: str) -> None:
    folder = suite_data("parallel/multi30k")
    names = {
        "source": "val.en",
        "target": f"val.{language}",
        "dev_source": "test.en",
        "dev_target": f"test.{language}",
    }
    paths: dict[str, Any] = {key: str(folder / f"{name}.gz") for key, name in names.items()}
    source = Parallel(**paths)
    examples = list(source.read())
    assert Counter(example.part for example in examples) == {"train": 1014, "dev": 1000} and not source.skipped
    assert examples[0].texts[0] == "A group of men are loading cotton onto a truck"


def test_errors_name_the_key_or_the_line(tmp_path: Path) -> None:
    paths = write_aligned(tmp_path)
    write_jsonl(tmp_path / "a.jsonl")
    (tmp_path / "b.tsv").write_text("gold_label\tsentence1\tsentence2\nneutral\tone\n")
    (tmp_path / "c.jsonl").write_text('{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}\n')
    (tmp_path / "short.txt").write_text("one line\n")
    (tmp_path / "a.tsv").write_text("one\ttwo\none\n")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (Inference, {}, "inference.path"),
        (Inference, {"path": "a", "dataset": "b"}, "inference.path"),
        (Inference, {"path": f"{tmp_path}/a.jsonl", "dev_path": f"{tmp_path}/*.jsonl"}, "inference.path"),
        (Inference, {"path": f"{tmp_path}/b.tsv"}, f"{tmp_path}/b.tsv:2"),
        (Inference, {"path": f"{tmp_path}/c.jsonl"}, f"{tmp_path}/c.jsonl:1"),
        (Parallel, {}, "parallel.source"),
        (Parallel, {"source": paths["source"]}, "parallel.target"),
        (Parallel, paths | {"tsv": "a.tsv"}, "parallel.source"),
        (Parallel, paths | {"dev_source": "a"}, "parallel.target"),
        (Parallel, paths | {"target": f"{tmp_path}/*"}, "parallel.target"),
        (Parallel, paths | {"target": f"{tmp_path}/short.txt"}, f"{paths['source']}, {tmp_path}/short.txt"),
        (Parallel, {"tsv": f"{tmp_path}/a.tsv"}, f"{tmp_path}/a.tsv:2"),
    ]
    for kind, options, key in cases:
        with pytest.raises(UserError) as error:
            list(kind(**options).read())
        assert error.value.key == key
