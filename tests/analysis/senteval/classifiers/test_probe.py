"""Linear and hidden-layer probes: what they learn, the choice on dev, standardisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from analysis.senteval.classifiers import probe
from analysis.senteval.classifiers.probe import ProbeData, linear_probe, mlp_probe
from analysis.senteval.classifiers.training import Fits, fit_many
from analysis.senteval.protocols import ClassifierSettings


def blobs(spread: float = 0.3, train: int = 200, dev: int = 100, test: int = 100) -> ProbeData:
    """Three classes with features that are far from standardised."""
    rng = np.random.default_rng(0)
    count = train + dev + test
    labels = rng.integers(3, size=count)
    centres = 5.0 + 100.0 * np.eye(3, 6)
    rows = centres[labels] + 100 * spread * rng.normal(size=(count, 6))
    return ProbeData(rows.astype(np.float32), labels, train=train, dev=dev)


def exclusive_or() -> ProbeData:
    """Classes that no linear classifier can separate."""
    rows = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2)).astype(np.float32)
    return ProbeData(rows, (rows[:, 0] * rows[:, 1] > 0).astype(np.int64), train=600, dev=200)


def test_only_the_perceptron_learns_an_exclusive_or() -> None:
    examples = exclusive_or()
    assert examples.accuracy(linear_probe(examples)) < 70
    assert examples.accuracy(mlp_probe(examples, layers=1, dropout=0.0, width=64)) > 90


def test_features_are_standardised_in_place_by_the_training_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(3, 5, size=(50, 4)).astype(np.float32)
    rows[:, 2] = 7.3
    expected = (rows - rows[:30].mean(axis=0)) / np.array([*rows[:30, :2].std(axis=0), 1, rows[:30, 3].std()])
    monkeypatch.setattr(probe, "ROWS", 7)
    ProbeData(rows, np.arange(50) % 2, train=30, dev=5)
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_without_early_stopping_the_fit_is_near_the_minimum_of_its_loss() -> None:
    """With one L2, nearly all predictions equal those of a direct minimisation of cross-entropy + l2 / 2 |W|^2."""
    examples = blobs(1.0, train=120, dev=0, test=300)
    x = torch.from_numpy(examples.features).double()
    weight, bias = torch.zeros(3, 6, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimizer = torch.optim.LBFGS(parameters, max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scores, labels = x[:120] @ weight.T + bias, torch.from_numpy(examples.labels[:120])
        value = torch.nn.functional.cross_entropy(scores, labels)
        value = value + 0.1 / 2 * (weight.square().sum() + bias.square().sum())
        value.backward()
        return value

    optimizer.step(loss)
    expected = (x[120:] @ weight.T + bias).argmax(dim=1).numpy()
    assert np.mean(linear_probe(examples, l2=[0.1], updates=3000) == expected) > 0.97


def test_dev_chooses_the_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    examples, l2 = blobs(2.0, train=60, dev=200), [1.0, 1e-3]
    [fitted] = fit_many(
        examples.features, examples.labels, [Fits(examples.train, examples.dev, l2)], 3, ClassifierSettings()
    )
    best = max(fitted, key=lambda fit: fit.dev_accuracy)  # the first of equal ones
    expected = best.probabilities(examples.features[examples.test]).argmax(axis=1)
    np.testing.assert_array_equal(linear_probe(examples, l2=l2), expected)
