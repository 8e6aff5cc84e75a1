"""Classifiers: the minimum of logistic regression, what dev chooses, seeds, rows put together on demand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from analysis import classifying
from analysis.classifying import L2, Examples, Gathered, accuracy, compared, logistic, perceptron, side_by_side
from data.errors import UserError


def blobs(count: int, seed: int, spread: float = 0.3, classes: int = 3) -> Examples:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    centres = 5.0 + 100.0 * np.eye(classes, 6)  # far from standardised
    rows = centres[labels] + 100 * spread * rng.normal(size=(count, 6))
    return Examples(rows.astype(np.float32), labels)


def exclusive(count: int, seed: int) -> Examples:
    """Classes that no linear classifier can tell apart."""
    rows = np.random.default_rng(seed).uniform(-1, 1, size=(count, 2)).astype(np.float32)
    return Examples(rows, (rows[:, 0] * rows[:, 1] > 0).astype(np.int64))


def test_both_learn_what_can_be_learned() -> None:
    parts = [blobs(count, seed) for seed, count in enumerate((200, 100, 100))]
    assert accuracy(logistic(*parts).predictions, parts[2].labels) > 95
    fit = perceptron(*parts, layers=2, dropout=0.5, seed=0, width=32)
    assert accuracy(fit.predictions, parts[2].labels) > 95
    assert fit.chosen["steps"] % classifying.LEAST_STEPS == 0


def test_only_the_perceptron_learns_an_exclusive_or() -> None:
    parts = [exclusive(count, seed) for seed, count in enumerate((600, 200, 200))]
    assert accuracy(logistic(*parts).predictions, parts[2].labels) < 70
    fit = perceptron(*parts, layers=1, dropout=0.0, seed=0, width=64)
    assert accuracy(fit.predictions, parts[2].labels) > 90


def test_logistic_regression_is_at_its_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one L2 the predictions are those of a plain minimiser of the module's equation."""
    train, dev, test = blobs(120, 0, 1.0), blobs(60, 1, 1.0), blobs(300, 2, 1.0)
    rows = np.asarray(train.rows)[np.arange(120)]
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    x, y = torch.from_numpy((rows - mean) / spread).double(), torch.from_numpy(train.labels)
    weight, bias = torch.zeros(3, 6, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimizer = torch.optim.LBFGS(parameters, max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(x @ weight.T + bias, y) + 0.1 / 2 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    asked = torch.from_numpy((np.asarray(test.rows)[np.arange(300)] - mean) / spread).double()
    expected = (asked @ weight.T + bias).argmax(dim=1).numpy()
    monkeypatch.setattr(classifying, "L2", (0.1,))
    assert np.mean(logistic(train, dev, test).predictions == expected) > 0.99


def test_dev_chooses() -> None:
    train, test = blobs(60, 0, 2.0), blobs(50, 3, 2.0)
    fits = {l2: None for l2 in L2}
    dev = blobs(200, 1, 2.0)
    chosen = logistic(train, dev, test)
    for l2 in fits:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(classifying, "L2", (l2,))
            assert logistic(train, dev, test).dev <= chosen.dev + 0.5  # a warm start ends within rounding
    assert chosen.chosen["l2"] in L2


def test_a_seed_decides_all_and_the_global_stream_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifying, "DEV_EVALUATIONS", 2)
    parts = [blobs(count, seed, 1.0) for seed, count in enumerate((150, 80, 80))]
    state = torch.random.get_rng_state()
    options = {"layers": 2, "dropout": 0.5, "width": 16}
    first = perceptron(*parts, **options, seed=1)  # type: ignore[arg-type]
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(5)
    again = perceptron(*parts, **options, seed=1)  # type: ignore[arg-type]
    torch.random.set_rng_state(state)
    np.testing.assert_array_equal(first.predictions, again.predictions)
    assert first.dev == again.dev
    other = perceptron(*parts, **options, seed=2)  # type: ignore[arg-type]
    assert (other.predictions != first.predictions).any()


def test_rows_are_put_together_when_asked_for() -> None:
    rng = np.random.default_rng(0)
    matrix, words = rng.normal(size=(5, 2)), rng.normal(size=(3, 4))
    places, asked = np.array([4, 0, 2]), np.array([1, 1, 2])
    rows = Gathered([(matrix, places), (words, asked)], side_by_side)
    index = np.array([2, 0])
    np.testing.assert_array_equal(rows[index], [[*matrix[2], *words[2]], [*matrix[4], *words[1]]])
    u, v = np.array([[1.0, -2.0]]), np.array([[3.0, 4.0]])
    np.testing.assert_array_equal(compared(u, v), [[1, -2, 3, 4, 2, 6, 3, -8]])


def test_a_feature_that_never_varies_does_no_harm() -> None:
    parts = []
    for seed, count in enumerate((200, 100, 100)):
        part = blobs(count, seed)
        rows = np.asarray(part.rows)[np.arange(count)]
        parts.append(Examples(np.hstack([rows, np.full((count, 1), 7.3, np.float32)]), part.labels))
    assert accuracy(logistic(*parts).predictions, parts[2].labels) > 95


def test_what_cannot_be_learned_is_told() -> None:
    part, empty = blobs(20, 0), Examples(np.empty((0, 6), np.float32), np.empty(0, np.int64))
    with pytest.raises(UserError, match="There is no dev example"):
        logistic(part, empty, part)
    alike = Examples(part.rows, np.zeros(20, np.int64))
    with pytest.raises(UserError, match="All training examples are of one class"):
        perceptron(alike, part, part, layers=1, dropout=0, seed=0)
