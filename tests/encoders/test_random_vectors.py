"""Random vectors: a function of seed and sentence, standard normal."""

from __future__ import annotations

import numpy as np
from scipy import stats

from encoders.random_vectors import RandomVectors


def test_a_vector_depends_only_on_seed_and_sentence() -> None:
    encoder = RandomVectors(dimension=5, seed=3)
    vectors = encoder.encode(["a", "b", "a", ""])
    assert vectors.shape == (4, 5) and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_array_equal(RandomVectors(dimension=5, seed=3).encode(["b"])[0], vectors[1])
    assert len({row.tobytes() for row in vectors}) == 3
    others = [RandomVectors(dimension=5, seed=4), RandomVectors(dimension=4, seed=3)]
    assert not np.array_equal(others[0].encode(["a"])[0], vectors[0])
    assert len({each.fingerprint() for each in (encoder, *others)}) == 3


def test_vectors_are_standard_normal() -> None:
    vectors = RandomVectors(dimension=256).encode([f"sentence {i}" for i in range(400)])
    assert stats.kstest(vectors.ravel()[:20_000], "norm").pvalue > 1e-3
