"""Weighted means of word vectors against the papers' formulas, computed sentence by sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from encoders import word_weights
from encoders.bag_of_words import BagOfWords

WORDS = {"the": (1.0, 2.0, 0.5), "cat": (3.0, -1.0, 1.0), "dog": (0.5, 0.25, -2.0), ".": (-1.0, 0.0, 1.0)}
LINES = ["the cat .", "the unknown dog the .", "", "cat", "unknown words", "the the cat dog"]
SENTENCES = ["the dog .", "cat cat dog", "nothing known", "", *LINES]


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_text(
        "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in {**WORDS, "rare": (4, 4, 4)}.items())
    )
    return str(path)


@pytest.fixture
def counts(tmp_path: Path) -> str:
    path = tmp_path / "counts.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(LINES) + "\n")
    return str(path)


def mean(sentence: str, weights: dict[str, float]) -> np.ndarray:
    known = [word for word in sentence.split() if word in WORDS]
    return sum((weights[word] * np.array(WORDS[word]) for word in known), np.zeros(3)) / max(1, len(known))


def sif(a: float) -> tuple[dict[str, float], np.ndarray]:
    """Returns weights and the first singular vector of the counted sentences: Arora et al., algorithm 1."""
    words = " ".join(LINES).split()
    weights = {word: a / (a + words.count(word) / len(words)) for word in WORDS}
    _, _, directions = np.linalg.svd(np.array([mean(line, weights) for line in LINES]))
    return weights, directions[0]


@pytest.mark.parametrize(("a", "chunk"), [(1e-3, 1000), (0.5, 2)])
def test_sif_equals_algorithm_1(
    a: float, chunk: int, vectors: str, counts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_weights, "CHUNK", chunk)
    weights, common = sif(a)
    expected = [(v := mean(sentence, weights)) - common * (common @ v) for sentence in SENTENCES]
    encoder = BagOfWords(vectors=vectors, weighting="sif", counts=counts, sif_a=a)
    result = encoder.encode(SENTENCES)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    np.testing.assert_allclose(result @ common, 0, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(["rare"])[0], 4 - common * (common.sum() * 4), atol=1e-5)  # p = 0
    assert f"sif from 5 sentences of {counts}" in encoder.origin
