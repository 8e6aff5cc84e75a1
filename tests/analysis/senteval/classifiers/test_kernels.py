"""Each compiled function against numpy or torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.senteval.classifiers import kernels

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_exp_equals_numpys() -> None:
    values = np.concatenate([-np.geomspace(1e-8, 87, 1000), [0.0, -200.0, -np.inf]]).astype(np.float32)
    expected = np.exp(np.maximum(values, -87).astype(np.float64))
    kernels._exp(values, np.empty(len(values), np.int32))
    assert np.abs(values / expected - 1).max() < 1e-5
    assert values[-3] == 1


@pytest.mark.parametrize("width", [1, 3, 16, 33, 300])
def test_scores_and_gradients_equal_matrix_products(width: int) -> None:
    features, weights, errors = normal(30, width), normal(8, width + 1), normal(8, 6)
    rows = np.array([3, 3, 29, 0, 7, 11])
    scores, gradient = np.empty((8, 6), np.float32), np.zeros((8, width + 1), np.float32)
    kernels._score(features, rows, weights, scores)
    kernels._accumulate(features, rows, errors, gradient)
    ones = np.column_stack([features[rows], np.ones(6)])
    np.testing.assert_allclose(scores, weights @ ones.T, atol=1e-4)
    np.testing.assert_allclose(gradient, errors @ ones, atol=1e-4)


def test_squared_errors_are_the_gradient_of_the_mean_squared_error_of_softmax() -> None:
    scores = torch.tensor(5 * normal(9, 5), requires_grad=True)
    targets = torch.softmax(torch.tensor(normal(9, 5)), dim=1)
    torch.nn.functional.mse_loss(torch.softmax(scores, dim=1), targets).backward()
    assert scores.grad is not None
    table = np.ascontiguousarray(scores.detach().numpy().T)
    kernels._softmax(table, np.float32(1), np.empty(9, np.float32), np.empty(9, np.int32))
    np.testing.assert_allclose(table.T, torch.softmax(scores, dim=1).detach(), atol=1e-6)
    kernels._squared_errors(table, targets.numpy(), np.float32(1 / 9))
    np.testing.assert_allclose(table.T, scores.grad, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("adam", [True, False], ids=["Adam", "RMSprop"])
@pytest.mark.parametrize("batch", [5, 8, 100])
def test_training_equals_torchs(classes: int, adam: bool, batch: int) -> None:
    features, labels, rows = normal(40, 11), RANDOM.integers(classes, size=40), RANDOM.permutation(40)[:23]
    orders = np.stack([RANDOM.permutation(23) for _ in range(4)]).astype(np.int32)
    l2 = np.array([0.0, 1e-2, 1.0], np.float32)
    weights = normal(3 * classes, 12)
    models = []
    for k, decay in enumerate(l2):
        model = torch.nn.Linear(11, classes)
        with torch.no_grad():
            model.weight.copy_(torch.tensor(weights[k * classes : (k + 1) * classes, :-1]))
            model.bias.copy_(torch.tensor(weights[k * classes : (k + 1) * classes, -1]))
        optimizer_class = torch.optim.Adam if adam else torch.optim.RMSprop
        optimizer = optimizer_class(model.parameters(), weight_decay=float(decay))
        for order in orders:
            for low in range(0, 23, batch):
                chosen = rows[order[low : low + batch]]
                scores = model(torch.tensor(features[chosen]))
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(scores, torch.tensor(labels[chosen])).backward()
                optimizer.step()
        models.append(np.column_stack([model.weight.detach(), model.bias.detach()]))
    first, second, steps = np.zeros_like(weights), np.zeros_like(weights), 0
    for order in orders:  # later calls continue the count of updates
        steps = kernels.train(
            features, labels, rows[order], weights, first, second, steps, l2, classes, batch, adam
        )  # fmt: skip
    assert steps == 4 * -(-23 // batch)
    np.testing.assert_allclose(weights, np.concatenate(models), atol=1e-5)


def test_tile_size_does_not_change_the_result() -> None:
    """A batch larger than the cache is processed in tiles; 20,000 columns give tiles of 4 examples."""
    features, labels = normal(20, 20_000), RANDOM.integers(2, size=20)
    weights = np.zeros((2, 20_001), np.float32)
    kernels.train(
        features, labels, np.arange(20), weights, weights.copy(), weights.copy(), 0,
        np.zeros(1, np.float32), 2, 20, False,
    )  # fmt: skip
    # The gradient of class 1; RMSprop's first step is ten learning rates, against the gradient's sign.
    gradient = features.T @ (0.5 - labels) / 20
    clear = np.abs(gradient) > 1e-3
    np.testing.assert_allclose(weights[1, :-1][clear], -0.1 * np.sign(gradient[clear]), rtol=1e-3)
    np.testing.assert_array_equal(weights[0], -weights[1])


@given(st.integers(1, 9), st.integers(2, 4), st.integers(1, 5))
@settings(max_examples=25)
def test_scores_of_rows(rows: int, classes: int, models: int) -> None:
    features = RANDOM.integers(-1, 2, size=(12, 3)).astype(np.float32)
    weights, chosen = RANDOM.integers(-1, 2, size=(models * classes, 4)), RANDOM.integers(12, size=rows)
    expected = weights[:, :-1] @ features[chosen].T + weights[:, -1:]
    if classes == 2:
        expected = expected[1::2] - expected[::2]
    scores = kernels.score(features, chosen, weights.astype(np.float32), classes)
    np.testing.assert_array_equal(scores, expected)
