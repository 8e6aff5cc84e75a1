"""Classifiers of pairs against plain programs and the published toolkit's scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax
from torch import nn

import encoders
from analysis.senteval.classifiers import training
from analysis.senteval.classifiers.pairs import PairRows, relatedness, snli, two_point
from analysis.senteval.classifiers.selection import Labelled
from analysis.senteval.protocols import PROTOCOLS, ClassifierSettings
from analysis.senteval.scores import accuracy
from analysis.senteval.scores import relatedness as relatedness_scores
from analysis.senteval.tasks import TASKS
from tests.analysis.senteval.plain_network import plain_network, plain_training
from tests.encoders.models import minilm
from tests.real_data import suite_data

WIDTH = 7


def pairs() -> tuple[np.ndarray, tuple[PairRows, PairRows, PairRows]]:
    """Vectors of 80 sentences, and three splits; the class depends on the distance of the pair's vectors."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((80, WIDTH)).astype(np.float32)

    def split(size: int) -> PairRows:
        first, second = random.integers(80, size=(2, size))
        distance = np.abs(vectors[first] - vectors[second]).mean(axis=1) + 0.1 * random.standard_normal(size)
        return PairRows(first, second, np.digitize(distance, [0.9, 1.3]))

    return vectors, (split(300), split(70), split(90))


def features(vectors: np.ndarray, part: PairRows) -> np.ndarray:
    u, v = vectors[part.first], vectors[part.second]
    return np.hstack([u, v, u * v, np.abs(u - v)])


@pytest.mark.parametrize(
    "classifier",
    [
        pytest.param(ClassifierSettings(), id="default"),
        pytest.param(PROTOCOLS["prototyping"].classifier, id="prototyping"),
        pytest.param(ClassifierSettings(hidden=5, dropout=0.2, batch=50), id="hidden layer"),
    ],
)
def test_snli_equals_a_plain_program(classifier: ClassifierSettings) -> None:
    vectors, splits = pairs()
    train, dev, test = ((features(vectors, part), part.labels) for part in splits)
    expectation = plain_network(train, dev, 1e-9, 3, replace(classifier, max_epoch=15, epoch_size=1))
    scores = expectation.logits(test[0])
    outcome = snli(vectors, *splits, classifier)
    assert outcome.dev == round(100 * expectation.dev_accuracy, 2)
    assert accuracy(test[1], outcome.probabilities) == accuracy(test[1], scores)
    np.testing.assert_allclose(outcome.probabilities, softmax(scores, axis=1), atol=1e-5)


def test_features_are_built_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, splits = pairs()
    np.save(tmp_path / "vectors.npy", vectors)
    expectation = snli(vectors, *splits, ClassifierSettings(patience=0))
    monkeypatch.setattr(training, "PART", 1)  # a batch at a time
    outcome = snli(np.load(tmp_path / "vectors.npy", mmap_mode="r"), *splits, ClassifierSettings(patience=0))
    np.testing.assert_array_equal(outcome.probabilities, expectation.probabilities)


def problem(noise: float, low: float) -> list[Labelled]:
    random = np.random.default_rng(0)
    splits = []
    for size in (150, 60, 70):
        rows = random.standard_normal((size, 6)).astype(np.float32)
        gold = 2.5 + rows[:, 0] - 0.5 * rows[:, 1] + noise * random.standard_normal(size)
        splits.append((rows, np.clip(gold, low, 5)))
    return splits


def toolkit_targets(scores: np.ndarray) -> np.ndarray:
    """Returns the targets of Tai et al. (2015), case by case."""
    rows = np.zeros((len(scores), 5), np.float32)
    for row, score in zip(rows, scores, strict=True):
        floor = int(np.floor(score))
        if floor < 5:
            row[floor] = score - floor
        if floor > 0:
            row[floor - 1] = floor - score + 1
    return rows


def plain_relatedness(train: Labelled, dev: Labelled, test: Labelled) -> tuple[float, np.ndarray]:
    """The toolkit's training: nn.Sequential, nn.MSELoss, torch.optim.Adam; the best dev score and predictions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1111)
        model = nn.Sequential(nn.Linear(train[0].shape[1], 5), nn.Softmax(dim=1))

    def expectation(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(features)).numpy() @ np.arange(1, 6)

    def pearson() -> float:
        return stats.pearsonr(expectation(dev[0]), dev[1])[0]

    x, y = torch.from_numpy(train[0]), torch.from_numpy(toolkit_targets(train[1]))
    loop, random = ClassifierSettings(patience=3, epoch_size=50, max_epoch=1000), np.random.RandomState(1111)
    return plain_training(model, nn.MSELoss(), x, y, pearson, 0.0, loop, random), expectation(test[0])


@pytest.mark.parametrize(("noise", "low"), [(0.3, 0.0), (2.0, 1.0)])
def test_relatedness_equals_the_toolkits_program(noise: float, low: float) -> None:
    train, dev, test = problem(noise, low)
    best, expectation = plain_relatedness(train, dev, test)
    pearson, predictions = relatedness(train, dev, test[0])
    assert pearson == pytest.approx(best, abs=1e-5)
    np.testing.assert_allclose(predictions, expectation, atol=1e-4)
    scores = relatedness_scores(test[1], predictions, trained=True)
    assert scores["pearson"] == pytest.approx(100 * stats.pearsonr(expectation, test[1])[0], abs=1e-3)
    assert scores["spearman"] == pytest.approx(100 * stats.spearmanr(expectation, test[1])[0], abs=0.1)
    assert scores["mse"] == pytest.approx(np.mean((expectation - test[1]) ** 2), abs=1e-4)


def test_targets_solved_by_hand() -> None:
    scores = np.array([0, 0.25, 1, 2.75, 4.5, 5])
    rows = [
        [0, 0, 0, 0, 0],
        [0.25, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0.25, 0.75, 0, 0],
        [0, 0, 0, 0.5, 0.5],
        [0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(two_point(scores), np.array(rows, np.float32))


@given(st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_targets_equal_those_of_the_paper(scores: list[float]) -> None:
    gold = np.array(scores)
    np.testing.assert_allclose(two_point(gold), toolkit_targets(gold), atol=1e-7)
    from_one = gold >= 1
    np.testing.assert_allclose(two_point(gold)[from_one] @ np.arange(1, 6), gold[from_one], atol=1e-5)


@pytest.mark.slow
def test_scores_on_real_data_equal_the_toolkits() -> None:
    """Expected scores are the published toolkit's for STS-B with all-MiniLM-L6-v2."""
    parts: Any = TASKS["STSBenchmark"].load(suite_data("senteval/downstream"))
    encoder, splits = encoders.load(str(minilm())), []
    for name in ("train", "dev", "test"):
        u, v = encoder.encode(parts[name].first), encoder.encode(parts[name].second)
        splits.append((np.hstack([np.abs(u - v), u * v]), parts[name].targets))
    train, dev, test = splits
    pearson, predictions = relatedness(train, dev, test[0])
    scores = relatedness_scores(test[1], predictions, trained=True)
    assert pearson == pytest.approx(0.8575836, abs=1e-5)
    assert (scores["pearson"], scores["spearman"]) == pytest.approx((82.09868, 82.44551), abs=1e-3)
    assert scores["mse"] == pytest.approx(1.0223146, abs=1e-4)
