"""Natural language inference: the formats of SNLI, MultiNLI, SentEval and the hub, and refusals."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest

from data.errors import UserError
from data.pairs import Pair
from data.sources import hub
from data.sources.inference import NO_CLASS, Inference
from tests.real_data import suite_data

COMMIT = "0123456789" * 4
ROWS = [
    ("entailment", "A dog runs.", "An animal moves."),
    ("-", "A dog runs.", "A dog is old."),
    ("neutral", "A dog runs.", "A dog is brown."),
    ("contradiction", "Two cats.", 'One "cat".'),
]
EXPECTED = [
    Pair(("A dog runs.", "An animal moves."), 0, None, "A dog runs."),
    Pair(("A dog runs.", "A dog is brown."), 1, None, "A dog runs."),
    Pair(("Two cats.", 'One "cat".'), 2, None, "Two cats."),
]
HEADERS = [
    "gold_label sentence1_binary_parse sentence1 sentence2 captionID pairID label1 label2",  # SNLI
    "index promptID sentence1 sentence2 label1 gold_label",  # MultiNLI
]


def jsonl(path: Path) -> Path:
    lines = [json.dumps({"gold_label": label, "sentence1": one, "sentence2": two}) for label, one, two in ROWS]
    path.write_bytes(
        gzip.compress("\n".join(lines).encode()) if path.suffix == ".gz" else "\n".join(lines).encode()
    )
    return path


def table(path: Path, header: str) -> Path:
    names = header.split()
    rows = [dict(zip(("gold_label", "sentence1", "sentence2"), values, strict=True)) for values in ROWS]
    lines = ["\t".join(names), *["\t".join(row.get(name, "x") for name in names) for row in rows]]
    path.write_text("\r\n".join(lines), encoding="utf-8")
    return path


def senteval(folder: Path) -> Path:
    for name, column in (("labels", 0), ("s1", 1), ("s2", 2)):
        (folder / f"{name}.train").write_text("".join(f"{row[column]}\n" for row in ROWS), encoding="utf-8")
    return folder / "s1.train"


def test_all_file_formats_give_the_same_pairs(tmp_path: Path) -> None:
    paths = [jsonl(tmp_path / "a.jsonl"), jsonl(tmp_path / "b.jsonl.gz"), senteval(tmp_path)]
    paths += [table(tmp_path / f"{i}.txt", header) for i, header in enumerate(HEADERS)]
    for path in paths:
        source = Inference(path=str(path))
        assert list(source.read()) == EXPECTED and source.skipped == {NO_CLASS: 1}
    assert len({Inference(path=str(path)).fingerprint for path in paths}) == len(paths)
    both = Inference(path=[str(path) for path in paths[:2]], dev_path=str(paths[2]))
    assert Counter(pair.part for pair in both.read()) == {"train": 6, "dev": 3} and both.skipped == {NO_CLASS: 3}


def test_pairs_of_one_premise_stay_together(tmp_path: Path) -> None:
    record = {"gold_label": "neutral", "sentence1": "Premise", "sentence2": "hypothesis"}
    lines = [json.dumps({**record, "sentence1": f"Premise  {i // 5}", "sentence2": str(i)}) for i in range(200)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    source = Inference(path=str(tmp_path / "a.jsonl"), dev_fraction=0.5)
    parts: dict[str, set[str]] = {}
    for pair in source.read():
        parts.setdefault(pair.sources[0], set()).add(source.part_of(pair))
    assert len(parts) == 40 and all(len(part) == 1 for part in parts.values())
    assert {part for found in parts.values() for part in found} == {"train", "dev"}


def test_rows_of_a_hub_data_set_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(dataset: str, subset: str | None, *, split: str, **_: Any) -> datasets.IterableDataset:
        rows = [{"premise": f"p {split}", "hypothesis": "h", "label": label} for label in (2, -1)]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(hub, "unreachable", lambda: None)
    monkeypatch.setattr(datasets, "load_dataset", load)
    source = Inference(dataset="stanfordnlp/snli", dev_split="validation", revision=COMMIT)
    assert list(source.read()) == [
        Pair(("p train", "h"), 2, "train", "p train"),
        Pair(("p validation", "h"), 2, "dev", "p validation"),
    ]
    assert source.skipped == {NO_CLASS: 2}


def test_pairs_of_real_files() -> None:
    folder = suite_data("nli")
    source = Inference(path=str(folder / "multinli_dev.jsonl.gz"), dev_path=str(folder / "dev.jsonl.gz"))
    counts = Counter((pair.part, pair.target) for pair in source.read())
    assert [counts["train", label] for label in range(3)] == [2822, 2161, 2744]
    assert [counts["dev", label] for label in range(3)] == [3329, 3235, 3278]


def test_errors_name_the_key_or_the_line(tmp_path: Path) -> None:
    first = senteval(tmp_path)
    (tmp_path / "s2.train").write_text("one line\n")
    jsonl(tmp_path / "a.jsonl")
    (tmp_path / "b.tsv").write_text("gold_label\tsentence1\tsentence2\nneutral\tone\n")
    (tmp_path / "c.jsonl").write_text('{"gold_label": "maybe", "sentence1": "a", "sentence2": "b"}\n')
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "inference.path"),
        ({"path": "a", "dataset": "b"}, "inference.path"),
        ({"path": "a", "dev_split": "validation"}, "inference.dev_split"),
        ({"path": f"{tmp_path}/labels.train"}, "inference.path"),
        ({"path": f"{tmp_path}/a.jsonl", "dev_path": f"{tmp_path}/*.jsonl"}, "inference.path"),
        ({"path": f"{tmp_path}/b.tsv"}, f"{tmp_path}/b.tsv:2"),
        ({"path": f"{tmp_path}/c.jsonl"}, f"{tmp_path}/c.jsonl:1"),
        ({"path": str(first)}, ", ".join(f"{tmp_path}/{part}.train" for part in ("labels", "s1", "s2"))),
    ]
    for options, key in cases:
        with pytest.raises(UserError) as error:
            list(Inference(**options).read())
        assert error.value.key == key
