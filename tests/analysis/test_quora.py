"""Duplicate questions: files, training sizes, splits, features and scores by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from analysis import quora
from analysis.models import Model
from analysis.quora import evaluate_duplicates, read_parts
from analysis.senteval.classifiers import probe
from data.errors import UserError
from tests.analysis.evaluation_helpers import NOUNS, bag
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
    train, dev, test = read_parts(write_files(tmp_path), seed=3)
    assert [len(train), len(dev), len(test)] == [108, 12, 60]
    assert sorted(train + dev) == sorted(questions(120, 0))
    again, other = read_parts(tmp_path, seed=3), read_parts(tmp_path, seed=4)
    assert again[0] == train != other[0]
    assert again[2] == test == other[2] == questions(60, 1)


def test_a_dev_file_is_used(tmp_path: Path) -> None:
    train, dev, _ = read_parts(write_files(tmp_path, dev=20), seed=0)
    assert len(train) == 120 and dev == questions(20, 2)


def test_files_without_a_header_or_with_other_columns_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "train.tsv.gz", "wt") as file:
        file.write('1\ta "b\tc\t17\n0\td\t \t18\n')  # an unpaired quotation mark is an ordinary character
    (tmp_path / "dev.tsv").write_text("id\tquestion2\tquestion1\tis_duplicate\n5\ty\tx\t1\n")
    (tmp_path / "test.tsv").write_text("0\tp\tq\n")
    train, dev, test = read_parts(tmp_path, seed=0)
    assert sorted(train) == [(0, "d", "."), (1, 'a "b', "c")]
    assert dev == [(1, "x", "y")] and test == [(0, "p", "q")]


@pytest.mark.parametrize("content", ["2\ta\tb\n", "1\ta\n", "is_duplicate\tq1\tq2\n", "", None])
def test_damaged_files_are_refused(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "train.tsv").write_text("1\ta\tb\n0\tc\td\n")
    if content is not None:
        (tmp_path / "test.tsv").write_text(content)
    with pytest.raises(UserError) as error:
        read_parts(tmp_path, seed=0)
    assert error.value.key.startswith(str(tmp_path))


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return bag(tmp_path, [*NOUNS, "where", "is", "the", "here"])


def test_a_training_size_takes_the_first_pairs_of_the_permutation(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifiers get the features [u; v; |u-v|; u*v] of these pairs."""
    data = write_files(tmp_path / "data")
    train, _, _ = read_parts(data, seed=0)
    features = {}

    def fit(examples: probe.ProbeData, device: str) -> probe.Probe:
        features[len(examples.train)] = examples.features[examples.train]
        assert len(examples.dev) == 12 and len(examples.labels[examples.test]) == 60
        return probe.Probe(50.0, np.ones(60, np.int64))

    monkeypatch.setattr(probe, "_standardise", lambda features, train: None)
    monkeypatch.setattr(quora, "linear_probe", fit)
    scores = evaluate_duplicates(model, data=str(data), sizes=[20, 1000, "all"], classifiers=["logistic"])
    u, v = (model.rows([str(pair[side]) for pair in train[:20]]) for side in (1, 2))
    np.testing.assert_allclose(features[20], np.hstack([u, v, np.abs(u - v), u * v]), atol=1e-6)
    np.testing.assert_array_equal(features[20], features[108][:20])
    assert scores["logistic.20.accuracy"] == 50.0 and scores["logistic.20.f1"] == pytest.approx(200 / 3)
    assert {*scores} == {
        "majority.accuracy",
        *(f"logistic.{n}.{m}" for n in (20, "all") for m in ("accuracy", "f1")),
    }


def test_duplicates_are_learned(model: Model, tmp_path: Path) -> None:
    data = write_files(tmp_path / "data", train=400)
    scores = evaluate_duplicates(model, data=str(data), sizes=["all"], classifiers=["logistic"])
    assert scores["logistic.all.accuracy"] > 80 and scores["majority.accuracy"] == 50
    with pytest.raises(UserError) as error:
        evaluate_duplicates(model, data=str(data), sizes=[5000])
    assert error.value.key == "sizes"


def test_real_files_have_the_published_counts() -> None:
    train, dev, test = read_parts(suite_data("quora"), seed=0)
    assert [len(train), len(dev), len(test)] == [16_082, 1_787, 5_614]
    assert sum(pair[0] for pair in test) == 2_807
    assert sum(pair[0] for pair in train + dev) == 10_000
