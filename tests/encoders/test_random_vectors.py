"""Random vectors: a function of seed and sentence, standard normal."""

from __future__ import annotations

import subprocess
import sys

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
    assert not np.array_equal(RandomVectors(dimension=5, seed=4).encode(["a"])[0], vectors[0])
    assert not np.array_equal(RandomVectors(dimension=5, seed=1).encode(["1 a"]), encoder.encode(["a"]))


def test_another_process_gives_the_same_vectors() -> None:
    program = (
        "from encoders.random_vectors import RandomVectors as R; print(R(dimension=3).encode(['x y']).tolist())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(RandomVectors(dimension=3).encode(["x y"]).tolist())


def test_vectors_are_standard_normal_and_uncorrelated() -> None:
    vectors = RandomVectors(dimension=256).encode([f"sentence {i}" for i in range(400)])
    assert stats.kstest(vectors.ravel()[:20_000], "norm").pvalue > 1e-3
    units = RandomVectors(dimension=256).encode([f"sentence {i}" for i in range(400)], normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, rtol=1e-6)
    cosines = (units @ units.T)[np.triu_indices(400, 1)]
    assert abs(cosines.mean()) < 0.002 and abs(cosines.std() - 256**-0.5) < 0.002


def test_encoding_no_sentences_gives_an_empty_array() -> None:
    assert RandomVectors().encode([]).shape == (0, 384)


def test_sentences_may_be_any_iterable() -> None:
    encoder = RandomVectors(dimension=3)
    np.testing.assert_array_equal(encoder.encode(text for text in "ab"), encoder.encode(["a", "b"]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(encoder.encode("ab"), encoder.encode(["ab"])[0])
    assert encoder.similarity(encoder.encode("ab"), encoder.encode(["ab", "c"])).shape == (1, 2)
