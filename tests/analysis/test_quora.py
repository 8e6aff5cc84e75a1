"""Duplicate questions: files, training sizes, splits, features and scores by hand."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis import quora
from analysis.models import Model
from analysis.quora import COLUMNS, evaluate_duplicates, read_pairs
from analysis.senteval.classifiers import probe
from analysis.senteval.classifiers.probe import ProbeData
from data.errors import UserError
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


def write_files(root: Path, train: int = 120, test: int = 60) -> Path:
    root.mkdir(exist_ok=True)
    for number, (part, count) in enumerate((("train", train), ("test", test))):
        pairs = pd.DataFrame(questions(count, number), columns=[*COLUMNS])
        pairs.to_csv(root / f"pairs_{part}.tsv", sep="\t", index=False)
    return root


@pytest.mark.parametrize("content", ["2\ta\tb\n", "1\ta\n", "is_duplicate\tq1\tq2\n", "", None])
def test_damaged_files_are_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "test.tsv").write_text(content)
    with pytest.raises(UserError) as error:
        read_pairs(str(tmp_path), "test")
    assert error.value.key == ("data" if content is None else str(tmp_path / "test.tsv"))


def test_questions_are_read_unchanged(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "train.tsv.gz", "wt") as file:
        file.write('id\tquestion2\tquestion1\tis_duplicate\n5\ty "\tnull\t1\n6\t\tx\t0\n')
    pairs = read_pairs(str(tmp_path), "train")
    assert [*pairs[[*COLUMNS]].itertuples(index=False, name=None)] == [(True, "null", 'y "'), (False, "x", "")]


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return bag(tmp_path, [*NOUNS, "where", "is", "the", "here"])


def test_a_training_size_takes_the_first_pairs_of_the_permutation(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classifiers get the features [u; v; |u-v|; u*v] of these pairs."""
    data = str(write_files(tmp_path / "data"))
    order = generator(EVALUATED_SPLIT, 0).permutation(120)
    train = read_pairs(data, "train").iloc[order]
    seen = {}

    def fit(examples: ProbeData, *, layers: int, seed: int, device: str | None) -> dict[str, float]:
        seen[len(examples.train)] = examples
        assert layers == 4 and len(examples.dev) == 12 and len(examples.labels[examples.test]) == 60
        return {"mlp": 50.0}

    plain = SimpleNamespace(partial_fit=lambda rows: None, mean_=0.0, scale_=1.0)
    monkeypatch.setattr(probe, "StandardScaler", lambda: plain)
    monkeypatch.setattr(quora, "fit_probes", fit)
    scores = evaluate_duplicates(model, data=data, sizes=[20, 1000])
    u, v = (model.rows(train[side].tolist()) for side in ("question1", "question2"))
    features = np.hstack([u, v, np.abs(u - v), u * v])
    np.testing.assert_allclose(seen[20].features[:32], features[[*range(20), *range(108, 120)]], atol=1e-6)
    np.testing.assert_allclose(seen[108].features[:120], features, atol=1e-6)
    assert seen[108].labels[:120].tolist() == train["is_duplicate"].tolist()
    assert scores == {"mlp.20.accuracy": 50.0, "mlp.108.accuracy": 50.0}


def test_real_files_have_the_published_counts() -> None:
    train, test = (read_pairs(str(suite_data("quora")), part) for part in ("train", "test"))
    assert [len(train), len(test)] == [17_869, 5_614]
    assert train["is_duplicate"].sum() == 10_000 and test["is_duplicate"].sum() == 2_807
