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
from analysis.senteval.classifiers import pairs as module
from analysis.senteval.classifiers import training
from analysis.senteval.classifiers.pairs import Pairs, relatedness, snli, two_point
from analysis.senteval.classifiers.selection import Labelled
from analysis.senteval.protocols import PROTOCOLS, Classifier
from analysis.senteval.scores import accuracy
from analysis.senteval.scores import relatedness as relatedness_scores
from analysis.senteval.tasks import TASKS
from tests.analysis.senteval.plain_network import plain_network
from tests.encoders.models import minilm
from tests.real_data import suite_data

WIDTH = 7


def pairs(n: int = 300) -> tuple[np.ndarray, tuple[Pairs, Pairs, Pairs]]:
    """Vectors of 80 sentences, and three splits; the class depends on the distance of the pair's vectors."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((80, WIDTH)).astype(np.float32)

    def split(size: int) -> Pairs:
        first, second = random.integers(80, size=(2, size))
        distance = np.abs(vectors[first] - vectors[second]).mean(axis=1) + 0.1 * random.standard_normal(size)
        return Pairs(first, second, np.digitize(distance, [0.9, 1.3]))

    return vectors, (split(n), split(70), split(90))


def features(vectors: np.ndarray, part: Pairs) -> np.ndarray:
    u, v = vectors[part.first], vectors[part.second]
    return np.hstack([u, v, u * v, np.abs(u - v)])


@pytest.mark.parametrize(
    "classifier",
    [
        pytest.param(Classifier(), id="default"),
        pytest.param(PROTOCOLS["prototyping"].classifier, id="prototyping"),
        pytest.param(Classifier(patience=0), id="no patience"),
        pytest.param(Classifier(hidden=5, dropout=0.2, batch=50), id="hidden layer"),
    ],
)
def test_snli_equals_a_plain_program(classifier: Classifier) -> None:
    vectors, splits = pairs()
    train, dev, test = ((features(vectors, part), part.labels) for part in splits)
    expected = plain_network(train, dev, 1e-9, 3, replace(classifier, max_epoch=15, epoch_size=1))
    scores = expected.logits(test[0])
    outcome = snli(vectors, *splits, classifier)
    assert outcome.dev == round(100 * expected.dev_accuracy, 2)
    assert accuracy(test[1], outcome.probabilities) == accuracy(test[1], scores)
    np.testing.assert_allclose(outcome.probabilities, softmax(scores, axis=1), atol=1e-5)


def test_features_are_built_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, splits = pairs(3000)
    np.save(tmp_path / "vectors.npy", vectors)
    expected = snli(vectors, *splits, Classifier(patience=0))
    sizes: list[int] = []
    build = training.PairFeatures.__getitem__

    def recorded(self: training.PairFeatures, rows: Any) -> np.ndarray:
        part = build(self, rows)
        sizes.append(len(part))
        return part

    monkeypatch.setattr(training.PairFeatures, "__getitem__", recorded)
    monkeypatch.setattr(training, "PART", 1)  # a batch at a time
    outcome = snli(np.load(tmp_path / "vectors.npy", mmap_mode="r"), *splits, Classifier(patience=0))
    assert max(sizes) == 90  # the whole test set, in evaluation
    np.testing.assert_array_equal(outcome.probabilities, expected.probabilities)


def problem(n: int = 150, noise: float = 0.3, low: float = 0.0) -> list[Labelled]:
    random = np.random.default_rng(0)
    splits = []
    for size in (n, 60, 70):
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


def plain_training(train: Labelled, dev: Labelled, test: Labelled) -> tuple[float, np.ndarray]:
    """The toolkit's training: nn.Sequential, nn.MSELoss, torch.optim.Adam."""
    random = np.random.RandomState(1111)
    x, y = torch.from_numpy(train[0]), torch.from_numpy(toolkit_targets(train[1]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1111)
        model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters())

    def expected(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(features)).numpy() @ np.arange(1, 6)

    best, best_state, failures, epochs = -1.0, {}, 0, 0
    while epochs <= 1000:
        for _ in range(50):
            for batch in torch.from_numpy(random.permutation(len(x))).split(64):
                optimizer.zero_grad()
                nn.MSELoss()(model(x[batch]), y[batch]).backward()
                optimizer.step()
        epochs += 50
        pearson = stats.pearsonr(expected(dev[0]), dev[1])[0]
        if pearson > best:
            best, best_state = pearson, {name: tensor.clone() for name, tensor in model.state_dict().items()}
        else:
            failures += 1
            if failures > 3:
                break
    model.load_state_dict(best_state)
    return best, expected(test[0])


@pytest.mark.parametrize(("noise", "low"), [(0.3, 0.0), (2.0, 1.0)])
def test_relatedness_equals_the_toolkits_program(noise: float, low: float) -> None:
    train, dev, test = problem(noise=noise, low=low)
    best, expected = plain_training(train, dev, test)
    pearson, predictions = relatedness(train, dev, test[0])
    assert pearson == pytest.approx(best, abs=1e-5)
    np.testing.assert_allclose(predictions, expected, atol=1e-4)
    scores = relatedness_scores(test[1], predictions, trained=True)
    assert scores["pearson"] == pytest.approx(100 * stats.pearsonr(expected, test[1])[0], abs=1e-3)
    assert scores["spearman"] == pytest.approx(100 * stats.spearmanr(expected, test[1])[0], abs=0.1)
    assert scores["mse"] == pytest.approx(np.mean((expected - test[1]) ** 2), abs=1e-4)


def test_training_stops_at_the_fourth_dev_score_without_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [0.1, 0.3, 0.3, 0.2, 0.4, 0.0, 0.4]  # then the dev score of the weights that are kept
    taken = iter([*scores, 0.4])
    correlation = module.correlation
    monkeypatch.setattr(
        module, "correlation", lambda predicted, gold: correlation(predicted, gold)._replace(pearson=next(taken))
    )
    train, dev, test = problem(20)
    assert relatedness(train, dev, test[0])[0] == 0.4
    assert next(taken, None) is None


def test_equal_vectors_have_no_correlation() -> None:
    train, dev, test = ((np.zeros_like(rows), gold) for rows, gold in problem(40))
    pearson, predictions = relatedness(train, dev, test[0])
    assert np.isnan(pearson) and np.isfinite(predictions).all()


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
