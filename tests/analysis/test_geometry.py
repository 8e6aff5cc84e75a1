"""Geometry of vectors against IsoScore's algorithm as its paper has it, loops, and hand-solved cases."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from analysis.geometry import alignment, measure_geometry, normalise, recall, uniformity, variance_shares

NONE = np.empty((0, 3))


def isotropy(vectors: np.ndarray) -> tuple[float, ...]:
    """Returns mean cosine, effective rank and IsoScore."""
    return tuple(measure_geometry(NONE, NONE, vectors).values())


def published_iso_score(points: np.ndarray) -> float:
    """Computes IsoScore by the steps of algorithm 1 of Rudman et al. (2022)."""
    n = points.shape[1]
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(np.cov(centred.T))
    diagonal = np.cov((centred @ axes).T).diagonal()  # of the covariance after PCA
    scaled = np.sqrt(n) * diagonal / np.linalg.norm(diagonal)
    defect = np.linalg.norm(scaled - np.ones(n)) / np.sqrt(2 * (n - np.sqrt(n)))
    used = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n**2
    return float((n * used - 1) / (n - 1))


def test_isotropy_equals_the_paper_and_loops() -> None:
    rng = np.random.default_rng(0)
    for size, width in ((700, 12), (510, 600)):
        vectors = rng.normal(1.0, rng.gamma(1.0, size=width), size=(size, width)) @ rng.normal(size=(width, width))
        cosine, rank, score = isotropy(vectors)
        lengths = np.linalg.norm(vectors, axis=1)
        cosines = [vectors[i] @ vectors[j] / lengths[i] / lengths[j] for i, j in combinations(range(size), 2)]
        assert cosine == pytest.approx(np.mean(cosines))
        shares = np.linalg.eigvalsh(np.cov(vectors.T))[-min(size - 1, width) :]
        shares /= shares.sum()
        np.testing.assert_allclose(variance_shares(vectors)[: len(shares)], shares[::-1], atol=1e-12)
        assert rank == pytest.approx(np.prod(shares**-shares))
        assert score == pytest.approx(published_iso_score(vectors))


def test_isotropy_of_known_distributions() -> None:
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(20_000, 8))
    assert isotropy(ball[:2000]) == pytest.approx((0, 8, 1), abs=0.03)
    line = ball[:2000] * [100, *[1] * 7]
    assert isotropy(line)[1:] == pytest.approx((1, 0), abs=0.02)
    plane = ball[:2000] * [1, 1, *[0] * 6]  # k of D dimensions: (k - 1) / (D - 1)
    assert isotropy(plane)[1:] == pytest.approx((2, 1 / 7), abs=0.01)
    assert isotropy(ball[:2000] + 1000)[0] == pytest.approx(1, abs=1e-4)
    assert isotropy(np.ones((2000, 8))) == pytest.approx((1, 1, 0))  # collapsed


def test_recall_equals_a_loop_over_ranks() -> None:
    rng = np.random.default_rng(0)
    anchors, positives = (normalise(rng.normal(size=(40, 6))) for _ in range(2))
    positives = normalise(positives + anchors)
    for k in (1, 5):
        hits = 0
        for i in range(40):
            ranking = sorted(range(40), key=lambda j: -float(anchors[i] @ positives[j]))
            hits += i in ranking[:k]
        assert 0 < hits < 40
        assert recall(anchors, positives, k) == pytest.approx(100 * hits / 40)


def test_pairs_by_hand() -> None:
    east, north = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert alignment(east, east) == 0
    assert alignment(east, north) == pytest.approx(2)
    assert alignment(east, -east) == pytest.approx(4)
    assert uniformity(np.concatenate([east, -east])) == pytest.approx(-8)  # |x - y|^2 = 4
    three = np.concatenate([east, east, north])  # distances 0, 2, 2
    assert uniformity(three) == pytest.approx(np.log((1 + 2 * np.exp(-4)) / 3))
