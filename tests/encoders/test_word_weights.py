"""Weighted means of word vectors against the papers' formulas, computed sentence by sentence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import encoders
from data.errors import UserError
from encoders import word_weights
from encoders.bag_of_words import BagOfWords
from encoders.fingerprint import fingerprint

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


@pytest.mark.parametrize("a", [1e-3, 0.5])
def test_sif_equals_algorithm_1(a: float, vectors: str, counts: str) -> None:
    weights, common = sif(a)
    expected = [(v := mean(sentence, weights)) - common * (common @ v) for sentence in SENTENCES]
    encoder = BagOfWords(vectors=vectors, weighting="sif", counts=counts, sif_a=a)
    found = encoder.encode(SENTENCES)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found @ common, 0, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(["rare"])[0], 4 - common * (common.sum() * 4), atol=1e-5)  # p = 0
    assert encoder.origin.endswith(f"weighted by sif (a = {a:g}) from 5 sentences of {counts}")


def test_tfidf_equals_scikit_learns(vectors: str, counts: str) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    lines = [line for line in LINES if line]
    document_counts = {word: sum(word in line.split() for line in lines) for word in WORDS}
    weights = {word: 1 + np.log((1 + len(lines)) / (1 + count)) for word, count in document_counts.items()}
    found = BagOfWords(vectors=vectors, weighting="tfidf", counts=counts).encode(SENTENCES)
    np.testing.assert_allclose(found, [mean(sentence, weights) for sentence in SENTENCES], rtol=1e-5, atol=1e-7)
    theirs = TfidfVectorizer(vocabulary=list(WORDS), tokenizer=str.split, token_pattern=None, norm=None).fit(lines)
    lengths = np.array([max(1, sum(word in WORDS for word in sentence.split())) for sentence in SENTENCES])
    sums = theirs.transform(SENTENCES) @ np.array(list(WORDS.values()))
    np.testing.assert_allclose(found, sums / lengths[:, None], rtol=1e-5, atol=1e-7)


def test_chunk_size_does_not_change_vectors(vectors: str, counts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = BagOfWords(vectors=vectors, weighting="sif", counts=counts).encode(SENTENCES)
    monkeypatch.setattr(word_weights, "CHUNK", 2)
    np.testing.assert_allclose(
        BagOfWords(vectors=vectors, weighting="sif", counts=counts).encode(SENTENCES), expected, atol=1e-7
    )
    monkeypatch.setattr(word_weights, "MOST", 3)
    assert "from 3 sentences" in BagOfWords(vectors=vectors, weighting="sif", counts=counts).origin


def test_without_a_file_the_corpus_is_counted(vectors: str, tmp_path: Path) -> None:
    documents = ["The cat sat here. The dog didn’t.", "The cat ."]  # full stops are not separate words
    (tmp_path / "sentences.txt").write_text("The cat sat here .\nThe dog did n't .\nThe cat .\n")
    arguments: dict[str, Any] = {"vectors": vectors, "weighting": "sif", "lowercase": True}
    ours = BagOfWords(**arguments, texts=lambda: documents)
    np.testing.assert_array_equal(
        ours.encode(SENTENCES), BagOfWords(**arguments, counts=str(tmp_path / "sentences.txt")).encode(SENTENCES)
    )
    assert ours.origin.endswith("from 3 sentences of the corpus")


def test_a_folder_keeps_the_weights(vectors: str, counts: str, tmp_path: Path) -> None:
    encoder = BagOfWords(vectors=vectors, weighting="sif", counts=counts)
    found = encoder.encode(SENTENCES)
    encoder.save(tmp_path / "encoder")
    reloaded = encoders.load(tmp_path / "encoder")
    np.testing.assert_array_equal(reloaded.encode(SENTENCES), found)
    fingerprints = {fingerprint(reloaded), fingerprint(encoder), fingerprint(BagOfWords(vectors=vectors))}
    assert len(fingerprints) == 2 and "weighted by sif" in (tmp_path / "encoder" / "README.md").read_text()
    opened = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(tmp_path / "encoder"), device="cpu"
    )
    np.testing.assert_allclose(opened.encode(SENTENCES), found, atol=1e-6)


def test_impossible_arguments_are_refused(vectors: str, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        BagOfWords(vectors=vectors, weighting="tfidf")
    for text in ("nothing of it is known\n", "\n", ""):
        (tmp_path / "unknown.txt").write_text(text)
        with pytest.raises(UserError):
            BagOfWords(vectors=vectors, weighting="sif", counts=str(tmp_path / "unknown.txt"))
    with pytest.raises(UserError):
        BagOfWords(vectors=vectors, weighting="sif", counts=str(tmp_path / "absent.txt"))
