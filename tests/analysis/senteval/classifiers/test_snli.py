from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax

from analysis.senteval.classifiers import snli as module
from analysis.senteval.classifiers.snli import Pairs, snli
from analysis.senteval.protocols import PROTOCOLS, Classifier
from analysis.senteval.scores import accuracy
from tests.analysis.senteval.plain_network import plain_network

WIDTH = 7


def problem(n: int = 300, seed: int = 0) -> tuple[np.ndarray, tuple[Pairs, Pairs, Pairs]]:
    """Vectors of 80 sentences, and three splits; the class depends on the distance of the pair's vectors."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((80, WIDTH)).astype(np.float32)

    def split(size: int) -> Pairs:
        first, second = random.integers(80, size=(2, size))
        distance = np.abs(vectors[first] - vectors[second]).mean(axis=1) + 0.1 * random.standard_normal(size)
        return Pairs(first, second, np.digitize(distance, [0.9, 1.3]))

    return vectors, (split(n), split(70), split(90))


def features(vectors: np.ndarray, pairs: Pairs) -> np.ndarray:
    u, v = vectors[pairs.first], vectors[pairs.second]
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
def test_scores_equal_those_of_a_plain_program(classifier: Classifier) -> None:
    vectors, splits = problem()
    train, dev, test = ((features(vectors, pairs), pairs.labels) for pairs in splits)
    expected = plain_network(train, dev, 1e-9, 3, replace(classifier, max_epoch=15, epoch_size=1))
    scores = expected.logits(test[0])
    found = snli(vectors, *splits, classifier)
    assert found.dev == round(100 * expected.dev_accuracy, 2)
    assert accuracy(test[1], found.probabilities) == accuracy(test[1], scores)
    assert found.epochs == expected.epochs
    np.testing.assert_allclose(found.probabilities, softmax(scores, axis=1), atol=1e-5)


def test_training_takes_at_most_sixteen_epochs() -> None:
    vectors, splits = problem()
    assert snli(vectors, *splits, Classifier(patience=99, max_epoch=200, epoch_size=4)).epochs == 16


@pytest.mark.parametrize("hidden", [0, 5])
def test_features_are_built_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: int) -> None:
    vectors, splits = problem(3000)
    np.save(tmp_path / "vectors.npy", vectors)
    classifier = Classifier(patience=0, hidden=hidden)
    expected = snli(vectors, *splits, classifier)  # of a few parts

    sizes: list[tuple[int, ...]] = []
    kind = module._Network if hidden else module._Linear
    build = kind._features

    def recorded(*arguments: Any) -> Any:
        features = build(*arguments)
        sizes.append(tuple(features.shape))
        return features

    monkeypatch.setattr(kind, "_features", recorded)
    monkeypatch.setattr(module, "_PART", 1)  # one batch at a time
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    found = snli(mapped, *splits, classifier)
    assert max(sizes) == (90, 4 * WIDTH)  # the whole test set, in evaluation
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_the_global_random_state_is_unchanged() -> None:
    vectors, splits = problem(60)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    snli(vectors, *splits, replace(Classifier(), hidden=4, dropout=0.5))
    assert torch.equal(torch.rand(3), expected)


def test_progress_rises_to_one() -> None:
    vectors, splits = problem(60)
    shares: list[float] = []
    snli(vectors, *splits, Classifier(), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
