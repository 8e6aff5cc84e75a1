"""Probes: their questions, and which classifiers can answer them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from analysis import probes
from analysis.models import Model
from analysis.probes import PROBES, evaluate_probes, make_questions
from analysis.senteval.classifiers import probe as trainers
from analysis.syntax import Sentence
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from tests.analysis.evaluation_helpers import bag, tree_folder


def sentences(count: int, seed: int, vocabulary: int = 60) -> list[Sentence]:
    """Returns sentences of 3 to 12 words "w<number>", some with a capital W, with random labels."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        words = [
            f"{'W' if rng.random() < 0.2 else 'w'}{n}" for n in rng.integers(vocabulary, size=rng.integers(3, 13))
        ]
        result.append(Sentence(tuple(words), bool(rng.random() < 0.1), None, f"T{rng.integers(30)}"))
    return result


PARTS = {"train": sentences(400, 0), "dev": sentences(150, 1), "test": sentences(150, 2)}


def test_content_questions_pair_a_word_inside_with_one_outside() -> None:
    for name, rows in make_questions("content", PARTS, 0).items():
        texts, labels, words = zip(*rows, strict=True)
        long_enough = [each.text for each in PARTS[name] if len(each.words) >= 5]
        assert texts == tuple(text for text in long_enough for _ in range(2))
        assert labels == (1, 0) * len(long_enough)
        for text, label, word in rows:
            assert (word.lower() in text.lower().split()) == label
        assert {*words[1::2]} <= {*words[::2]}  # every negative is the positive of another sentence


def test_content_negatives_are_as_frequent_as_positives() -> None:
    rng = np.random.default_rng(0)
    zipf = 1 / np.arange(1, 201)
    part = [Sentence(tuple(f"w{n}" for n in rng.choice(200, size=8, p=zipf / zipf.sum()))) for _ in range(4000)]
    words = [row[2] for row in make_questions("content", {"train": part}, 0)["train"]]
    positive, negative = Counter(words[::2]), Counter(words[1::2])
    rare = [f"w{n}" for n in range(50, 200)]
    share = sum(positive[word] for word in rare) / sum(negative[word] for word in rare)
    assert 0.7 < share < 1.0  # frequent words occur in most sentences, so they are seldom negatives


def test_order_questions_are_asked_in_both_orders() -> None:
    rows = make_questions("order", PARTS, 0)["train"]
    places = []
    for (text, label, before, after), reverse in zip(rows[::2], rows[1::2], strict=True):
        assert label == 1 and reverse == (text, 0, after, before)
        words = text.lower().split()
        assert words.count(before.lower()) == words.count(after.lower()) == 1
        assert words.index(before.lower()) < words.index(after.lower())
        places.append(words.index(before.lower()) / len(words))
    assert 0.15 < np.mean(places) < 0.4  # pairs are not restricted to adjacent or first words


def test_lengths_have_the_bins_of_adi_et_al() -> None:
    part = [Sentence(("w",) * count) for count in (1, 4, 5, 8, 9, 29, 30, 33, 34, 70, 71)]
    rows = make_questions("length", {"train": part}, 0)["train"]
    lengths = [(len(text.split()), label) for text, label in rows]
    assert lengths == [(5, 0), (8, 0), (9, 1), (29, 5), (30, 6), (33, 6), (34, 7), (70, 7)]


def test_top_sequences_are_the_commonest_of_training() -> None:
    unseen = [Sentence(("a",), None, None, top) for top in ("unheard", None)]
    questions = make_questions("tss", PARTS | {"test": unseen}, 0)
    count = Counter(sentence.tss for sentence in PARTS["train"])
    labels = {sentence.tss: label for sentence, (_, label) in zip(PARTS["train"], questions["train"], strict=True)}
    assert {*labels.values()} == {*range(20)} and questions["test"] == [("a", 19)]
    common = sorted((label, top) for top, label in labels.items() if label < 19)
    counts = [count[top] for _, top in common]
    assert counts == sorted(count.values(), reverse=True)[:19]


def test_voice_and_tense_questions_need_a_verb() -> None:
    part = [Sentence(("a",), True, False), Sentence(("b",), False, True), Sentence(("c",))]
    for probe, labels in (("passive", [1, 0]), ("tense", [0, 1])):
        assert make_questions(probe, {"train": part}, 0)["train"] == [*zip("ab", labels, strict=True)]


def test_questions_depend_only_on_the_seed() -> None:
    for probe in ("content", "order"):
        assert (
            make_questions(probe, PARTS, 0) == make_questions(probe, PARTS, 0) != make_questions(probe, PARTS, 1)
        )


def test_a_perceptron_finds_words_in_a_bag_of_words_and_a_linear_probe_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainers, "DEV_EVALUATIONS", 6)
    model = bag(tmp_path, [f"{letter}{n}" for n in range(20) for letter in "wW"], dimension=16)
    counts = {"train": 1200, "dev": 200, "test": 300}
    parts = {name: sentences(count, seed, 20) for seed, (name, count) in enumerate(counts.items())}
    monkeypatch.setattr(probes, "read_parts", lambda data, seed: parts)
    scores = evaluate_probes(model, data="made", probes=["content", "passive"])
    assert scores["content.logistic.test"] < 60 and scores["content.mlp.test"] > 70
    assert scores["content.majority.test"] == 50 and "passive.mlp.test" not in scores
    assert scores["passive.majority.test"] == 100 * np.mean([not each.passive for each in parts["test"]])


def test_features_are_the_vectors_of_sentence_and_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word is looked up in lower case, then as written; an unknown word has a zero vector."""
    model = bag(tmp_path, ["a", "b", "B", "C"])
    rows = [("a b", 1, "C", "B"), ("b B", 0, "unknown", "A")]
    features = []

    def fit(examples: trainers.ProbeData, **options: object) -> trainers.Probe:
        features.append(examples.features)
        return trainers.Probe(0.0, np.zeros(2, np.int64))

    monkeypatch.setattr(trainers, "_standardise", lambda features, train: None)
    for name in ("linear_probe", "mlp_probe"):
        monkeypatch.setattr(probes, name, fit)
    monkeypatch.setattr(probes, "read_parts", lambda data, seed: {})
    monkeypatch.setattr(probes, "make_questions", lambda *given: dict.fromkeys(("train", "dev", "test"), rows))
    evaluate_probes(model, data="made", probes=["order"])
    a, b, capital, c = model.rows(["a", "b", "B", "C"])
    expected = [[*(a + b) / 2, *c, *b], [*(b + capital) / 2, *np.zeros(8), *a]] * 3
    assert len(features) == 2
    for matrix in features:
        np.testing.assert_allclose(matrix, expected, atol=1e-6)


def test_probes_of_trees(tmp_path: Path) -> None:
    model, data = Model("random", RandomVectors()), str(tree_folder(tmp_path / "trees"))
    scores = evaluate_probes(model, data=data, probes=["tense", "tss"], limit=200)
    assert 30 < scores["tense.logistic.test"] < 70  # random vectors encode no tense
    assert {*scores} == {f"{probe}.{kind}.test" for probe in ("tense", "tss") for kind in ("logistic", "majority")}
    assert {*PROBES} > {"tense", "tss"}
    with pytest.raises(UserError):  # all training examples are of one class
        evaluate_probes(model, data=data, probes=["passive"])
