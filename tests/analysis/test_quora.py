"""Duplicate questions: files, training sizes, splits, features and scores by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import quora
from analysis.models import Model
from analysis.quora import COLUMNS, evaluate_duplicates, read_pairs
from data.randomness import EVALUATED_SPLIT, generator
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


def write_files(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    for number, (part, count) in enumerate((("train", 120), ("test", 60))):
        pairs = pd.DataFrame(questions(count, number), columns=[*COLUMNS])
        pairs.to_csv(root / f"pairs_{part}.tsv", sep="\t", index=False)
    return root


def test_questions_are_read_unchanged(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "train.tsv.gz", "wt") as file:
        file.write('id\tquestion2\tquestion1\tis_duplicate\n5\ty "\tnull\t1\n6\t\tx\t0\n')
    pairs = read_pairs(str(tmp_path), "train")[[*COLUMNS]]
    assert pairs.values.tolist() == [[True, "null", 'y "'], [False, "x", ""]]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return bag(tmp_path, [*NOUNS, "where", "is", "the", "here"])


def test_a_training_size_takes_the_first_pairs_of_the_permutation(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifiers get the features [u; v; |u-v|; u*v] of these pairs."""
    data, seen = str(write_files(tmp_path / "data")), {}
    train = read_pairs(data, "train").iloc[generator(EVALUATED_SPLIT, 0).permutation(120)]

    def keep(features: np.ndarray, labels: np.ndarray, *, train: int, dev: int) -> None:
        seen[train] = features, labels
        assert dev == 12 and len(labels) == train + 12 + 60

    monkeypatch.setattr(quora, "ProbeData", keep)
    monkeypatch.setattr(quora, "fit_probes", lambda examples, **options: {"mlp": 50.0})
    scores = evaluate_duplicates(model, data=data, sizes=[20, 1000])
    u, v = (model.rows(train[side].tolist()) for side in ("question1", "question2"))
    features = np.hstack([u, v, np.abs(u - v), u * v])
    np.testing.assert_allclose(seen[20][0][:32], features[[*range(20), *range(108, 120)]], atol=1e-6)
    np.testing.assert_allclose(seen[108][0][:120], features, atol=1e-6)
    assert seen[108][1][:120].tolist() == train["is_duplicate"].tolist()
    assert scores == {"mlp.20.accuracy": 50.0, "mlp.108.accuracy": 50.0}


def test_real_files_have_the_published_counts() -> None:
    train, test = (read_pairs(str(suite_data("quora")), part) for part in ("train", "test"))
    assert [len(train), len(test)] == [17_869, 5_614]
    assert train["is_duplicate"].sum() == 10_000 and test["is_duplicate"].sum() == 2_807
