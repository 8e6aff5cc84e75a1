"""Word similarity: compared with a plain rank correlation; coverage and sources of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from analysis import wordsim
from analysis.models import Model
from analysis.wordsim import evaluate_word_similarity, look_up
from encoders.bag_of_words import BagOfWords
from encoders.bilstm_max import BiLSTMMax
from encoders.random_vectors import RandomVectors
from tests.analysis.evaluation_helpers import vector_file
from tests.checks.encoder import train_tokenizer
from tests.real_data import suite_data

WORDS = {"sun": (1.0, 0.0), "moon": (0.8, 0.6), "car": (0.0, 1.0), "Rome": (-1.0, 0.1), "zero": (0.0, 0.0)}


@pytest.fixture
def words(tmp_path: Path) -> BagOfWords:
    return BagOfWords(vectors=str(vector_file(tmp_path / "words.txt", WORDS)))


def test_unknown_words_are_left_out_and_counted(
    words: BagOfWords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordsim, "MIN_PAIRS", 4)
    # "Sun" is looked up in lower case, "Rome" as it is written, "rome" and "mars" are unknown.
    lines = ["Sun moon 9", "sun car 1", "sun mars 5", "moon car 4", "rome sun 0", "Rome sun 0.5"]
    (tmp_path / "EN-made.txt").write_text("\n".join(lines))
    (tmp_path / "EN-none.txt").write_text(lines[2])
    scores = evaluate_word_similarity(Model("bag", words), data=str(tmp_path))
    assert (scores["made.covered"], scores["made.pairs"]) == (4, 6)
    assert scores["made.spearman"] == pytest.approx(1.0)
    assert (scores["none.covered"], scores["none.pairs"]) == (0, 1) and np.isnan(scores["none.spearman"])
    monkeypatch.undo()
    assert np.isnan(evaluate_word_similarity(Model("bag", words), data=str(tmp_path))["made.spearman"])


def test_rho_is_of_cosines(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    encoder, human = RandomVectors(dimension=3), rng.integers(5, size=30)
    pairs = [(f"a{number}", f"b{number % 7}") for number in range(30)]
    lines = (f"{first} {second} {score}\n" for (first, second), score in zip(pairs, human, strict=True))
    (tmp_path / "EN-X.txt").write_text("".join(lines))
    u, v = (encoder.encode([pair[side] for pair in pairs]) for side in (0, 1))
    cosines = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    scores = evaluate_word_similarity(Model("random", encoder), data=str(tmp_path))
    assert scores["X.spearman"] == pytest.approx(spearmanr(cosines, human).statistic)


def test_encoders_without_a_table_encode_words_as_sentences() -> None:
    tokenizer = train_tokenizer(BiLSTMMax, ["the sun and the long-term moon"], min_count=1)
    lstm = BiLSTMMax(hidden=4, word_size=3, tokenizer=tokenizer)
    texts = ["sun", "long-term", "mars", "<s>", "the sun"]
    table, known = look_up(Model("lstm", lstm), texts)
    assert known.tolist() == [True, True, False, False, False]
    rows = [lstm.tokenizer.convert_tokens_to_ids("sun"), lstm.tokenizer.unk_token_id]
    np.testing.assert_array_equal(table[[0, 2]], lstm.embedding.weight[rows].detach().numpy())
    assert look_up(Model("random", RandomVectors()), ["qwxz"])[1].all()


@pytest.mark.slow
def test_real_vectors_score_as_expected_on_the_real_sets() -> None:
    words = BagOfWords(vectors=str(suite_data("embeddings/glove.100d.10k.txt.gz")))
    scores = evaluate_word_similarity(Model("glove", words), data=str(suite_data("wordsim")))
    assert len(scores) == 3 * 13
    for name, rho, covered, pairs in (  # as counted in the README of the data
        ("WS-353-ALL", 0.547, 273, 353),
        ("MEN-TR-3k", 0.725, 1474, 3000),
        ("SIMLEX-999", 0.306, 687, 999),
        ("RG-65", 0.871, 20, 65),
        ("RW-STANFORD", 0.579, 151, 2034),
        ("YP-130", 0.417, 54, 130),
    ):
        assert scores[f"{name}.spearman"] == pytest.approx(rho, abs=6e-4)
        assert (scores[f"{name}.covered"], scores[f"{name}.pairs"]) == (covered, pairs)
