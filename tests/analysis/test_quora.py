"""Duplicate questions: files, training sizes, splits, scores by hand, and no printed rows in the table."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from analysis import quora
from analysis.quora import evaluate_duplicates, f1, read, report_duplicates, short, split_sizes
from analysis.senteval.classifiers import probe
from data.errors import UserError
from tests.analysis.evaluation_helpers import NOUNS, bag, vector_file
from tests.real_data import suite_data


def questions(count: int, seed: int) -> list[tuple[int, str, str]]:
    """Returns pairs of questions, alternately about two nouns and about the same noun."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(count):
        first, second = rng.choice(NOUNS, 2, replace=False)
        label = number % 2
        pairs.append((label, f"where is the {first}", f"is the {first if label else second} here"))
    return pairs


def write_files(root: Path, train: int = 120, test: int = 60, dev: int = 0) -> Path:
    root.mkdir(exist_ok=True)
    header = "is_duplicate\tquestion1\tquestion2\n"
    for number, (part, count) in enumerate((("train", train), ("test", test), ("dev", dev))):
        if count:
            lines = "".join(f"{label}\t{a}\t{b}\n" for label, a, b in questions(count, number))
            (root / f"pairs_{part}.tsv").write_text(header + lines, encoding="utf-8")
    return root


def test_the_last_tenth_of_the_permutation_is_dev(tmp_path: Path) -> None:
    parts = read(write_files(tmp_path), seed=3)
    assert [len(part.labels) for part in parts] == [108, 12, 60]
    pairs = sorted(zip(parts.train.first + parts.dev.first, parts.train.second + parts.dev.second, strict=True))
    assert pairs == sorted((a, b) for _, a, b in questions(120, 0))
    again, other = read(tmp_path, seed=3), read(tmp_path, seed=4)
    assert again.train.first == parts.train.first != other.train.first
    assert again.test.first == other.test.first
    for label, first, second in zip(parts.train.labels, parts.train.first, parts.train.second, strict=True):
        assert label == (first.split()[-1] == second.split()[2])


def test_a_dev_file_is_used(tmp_path: Path) -> None:
    parts = read(write_files(tmp_path, dev=20), seed=0)
    assert [len(part.labels) for part in parts] == [120, 20, 60]
    assert parts.dev.first == [a for _, a, _ in questions(20, 2)]


def test_files_without_a_header_or_with_other_columns_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "train.tsv.gz", "wt") as file:
        file.write('1\ta "b\tc\t17\n0\td\t \t18\n')  # an unpaired quotation mark is an ordinary character
    (tmp_path / "dev.tsv").write_text("id\tquestion2\tquestion1\tis_duplicate\n5\ty\tx\t1\n")
    (tmp_path / "test.tsv").write_text("0\tp\tq\n")
    train, dev, test = read(tmp_path, seed=0)
    assert sorted(train.first) == ['a "b', "d"] and sorted(train.second) == [".", "c"]
    assert (dev.first, dev.second, dev.labels.tolist()) == (["x"], ["y"], [1])
    assert test.labels.tolist() == [0]


@pytest.mark.parametrize("content", ["2\ta\tb\n", "1\ta\n", "is_duplicate\tq1\tq2\n", "", None])
def test_damaged_files_are_refused(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "train.tsv").write_text("1\ta\tb\n0\tc\td\n")
    if content is not None:
        (tmp_path / "test.tsv").write_text(content)
    with pytest.raises(UserError, match=r"test\.tsv"):
        read(tmp_path, seed=0)


def test_training_sizes_beyond_the_data_are_reported() -> None:
    assert split_sizes([1000, 5000, 1500, 25000, "all"], 6000) == (
        {"1k": 1000, "5k": 5000, "1500": 1500, "all": 6000},
        ["25k"],
    )
    assert [short(size) for size in (1000, 25000, 1500, "all")] == ["1k", "25k", "1500", "all"]


def test_f1_equals_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        ours, theirs = rng.integers(2, size=(2, 15))
        assert f1(ours, theirs) == pytest.approx(100 * f1_score(theirs, ours, zero_division=0))


def test_a_training_size_takes_the_first_pairs_of_the_permutation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifiers get the features [u; v; |u-v|; u*v] of these pairs."""
    parts = read(write_files(tmp_path / "data"), seed=0)
    model = bag(tmp_path, [*NOUNS, "where", "is", "the", "here"])
    fitted_features = {}

    def fit(examples: quora.ProbeData, device: str) -> probe.Probe:
        fitted_features[len(examples.train)] = examples.features[examples.train]
        assert len(examples.dev) == 12 and len(examples.test) == 60
        return probe.Probe(60.0, 50.0, np.ones(len(examples.test), np.int64), 1.0)

    monkeypatch.setattr(probe, "_standardise", lambda features, train: None)
    monkeypatch.setattr(quora, "fit_linear", fit)
    found = evaluate_duplicates(model, parts, {"20": 20, "all": 108}, classifiers=["logistic"])
    u, v = model.rows(parts.train.first[:20]), model.rows(parts.train.second[:20])
    np.testing.assert_allclose(fitted_features[20], np.hstack([u, v, np.abs(u - v), u * v]), atol=1e-6)
    np.testing.assert_array_equal(fitted_features[20], fitted_features[108][:20])
    assert found["logistic"]["20"]["accuracy"] == 50.0
    assert found["logistic"]["20"]["f1"] == pytest.approx(200 / 3)


def test_the_command_writes_table_and_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    words = {word: rng.normal(size=6).round(3).tolist() for word in [*NOUNS, "where", "is", "the", "here"]}
    file = vector_file(tmp_path / "words.txt", words)
    data, out = write_files(tmp_path / "data", train=400), tmp_path / "found.json"
    options: dict[str, Any] = {"models": ["bag_of_words"], "encoder": {"vectors": str(file)}, "cache": None}
    options |= {"data": str(data), "out": str(out)}
    report_duplicates(**options, sizes=[100, 1000, "all"], classifiers=["logistic"], format="md")
    output = capsys.readouterr().out
    assert "| bag\\_of\\_words, words (logistic) |" in output and "100 acc | 100 F1 | all acc | all F1" in output
    assert "Sizes that the training file does not reach: 1k." in output
    assert "left out on purpose" in output and "BiMPM" not in output and "gensen:" not in output
    record = json.loads(out.read_text())
    assert record["comparable"] is False and record["missing_sizes"] == ["1k"]
    assert record["pairs"] == {"train": 360, "dev": 40, "test": 60}
    scores = record["quora"][0]["scores"]["logistic"]["all"]
    assert scores["accuracy"] > 80 and scores["n_train"] == 360 and scores["l2"] in (1.0, 0.1, 0.01, 0.001)
    with pytest.raises(UserError) as error:
        report_duplicates(**options, sizes=[5000])
    assert error.value.key == "sizes"


def test_real_files_have_the_published_counts() -> None:
    parts = read(suite_data("quora"), seed=0)
    assert [len(part.labels) for part in parts] == [16_082, 1_787, 5_614]
    assert parts.test.labels.sum() == 2_807
    assert parts.train.labels.sum() + parts.dev.labels.sum() == 10_000
