"""Tiles of the compiled trainer; ``test_training`` compares its fits with a plain program."""

from __future__ import annotations

import numpy as np

from analysis.senteval.classifiers import kernels


def test_tile_size_does_not_change_the_result() -> None:
    """A batch larger than the cache is processed in tiles; 20,000 columns give tiles of 4 examples."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(20, 20_000)).astype(np.float32), random.integers(2, size=20)
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
