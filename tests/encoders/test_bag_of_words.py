"""Means of word vectors: SentEval's bow.py as the reference, case, exports, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.vectors import WordVectors
from encoders.bag_of_words import BagOfWords
from tests.checks.encoder import check_encoder
from tests.real_data import suite_data

WORDS = {
    "the": [1.0, 2.0],
    "Cat": [3.0, -1.0],
    "a": [0.5, 0.25],
    "I": [8.0, 8.0],
    ".": [-1.0, 0.0],
    "été": [7.0, 5.0],
}
SENTENCES = ["the Cat .", "", "nothing known", "aaa Ia a.a", "été the été", "  the\tCat\u00a0. ", "the " * 700]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bag") / "words.txt"
    path.write_text("".join(f"{word} {row[0]} {row[1]}\n" for word, row in WORDS.items()), encoding="utf-8")
    return str(path)


def bow_mean(sentence: str, words: Any = WORDS, width: int = 2) -> np.ndarray:
    """Returns the vector of SentEval's examples/bow.py: the mean over known words, zeros without any."""
    known = [words[word] for word in sentence.split() if word in words]
    return np.mean(known, axis=0) if known else np.zeros(width)


@given(st.lists(st.sampled_from([*WORDS, "The", "aI", "caté", "..", "\u2581the", "\t"]), max_size=8))
def test_the_vector_is_the_mean_over_known_words(vectors: str, words: list[str]) -> None:
    sentences = [" ".join(words), *SENTENCES]
    expected = [bow_mean(sentence) for sentence in sentences]
    np.testing.assert_allclose(BagOfWords(vectors=vectors).encode(sentences), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_looked_up_as_written_or_in_lower_case(lowercase: bool, vectors: str, tmp_path: Path) -> None:
    encoder = BagOfWords(vectors=vectors, lowercase=lowercase)
    expected = [[1, 2], [0, 0], [7, 5]] if lowercase else [[0, 0], [3, -1], [0, 0]]
    np.testing.assert_array_equal(encoder.encode(["THE", "Cat", "ÉTÉ"]), expected)
    check_encoder(encoder, tmp_path)


def test_vectors_of_real_sentences_equal_sentevals_bow() -> None:
    path = suite_data("embeddings/glove.100d.10k.txt.gz")
    lines = suite_data("senteval/downstream/CR/custrev.pos").read_text("latin-1").splitlines()[:500]
    glove = WordVectors(path)
    table = {word: glove.vectors[row].double().numpy() for word, row in glove.stoi.items()}
    expected = [bow_mean(line, table, 100) for line in lines]
    np.testing.assert_allclose(BagOfWords(vectors=str(path)).encode(lines), expected, atol=1e-6)
