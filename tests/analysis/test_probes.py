"""Probes: their questions, which classifiers can answer them, and marks on printed rows from other data."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import probes
from analysis.models import Model
from analysis.probes import (
    LENGTH_BINS,
    PROBES,
    Questions,
    evaluate_probes,
    guesses,
    questions,
    report_probes,
    table,
)
from analysis.senteval.classifiers import probe as trainers
from analysis.syntax import Sentence, read_parts
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
    by_part = questions("content", PARTS, 0)
    for name, part in PARTS.items():
        found = by_part[name]
        [words] = found.words
        long_enough = [one for one in part if len(one.words) >= 5]
        assert found.sentences == [one.text for one in long_enough for _ in range(2)]
        assert found.labels.tolist() == [1, 0] * len(long_enough)
        positives = set(words[::2])
        for sentence, word, label in zip(found.sentences, words, found.labels, strict=True):
            assert (word.lower() in sentence.lower().split()) == label
            assert word in positives  # every negative is the positive of another sentence


def test_content_negatives_are_as_frequent_as_positives() -> None:
    rng = np.random.default_rng(0)
    zipf = 1 / np.arange(1, 201)
    part = [
        Sentence(tuple(f"w{n}" for n in rng.choice(200, size=8, p=zipf / zipf.sum())), None, None, None)
        for _ in range(4000)
    ]
    [words] = questions("content", {"train": part}, 0)["train"].words
    positive, negative = Counter(words[::2]), Counter(words[1::2])
    rare = [f"w{n}" for n in range(50, 200)]
    share = sum(positive[word] for word in rare) / sum(negative[word] for word in rare)
    assert 0.7 < share < 1.0  # frequent words occur in most sentences, so they are seldom negatives


def test_order_questions_are_asked_in_both_orders() -> None:
    found = questions("order", PARTS, 0)["train"]
    first, second = found.words
    assert found.labels.tolist() == [1, 0] * (len(first) // 2)
    assert first[::2] == second[1::2] and first[1::2] == second[::2]
    places = []
    for sentence, before, after in zip(found.sentences[::2], first[::2], second[::2], strict=True):
        words = sentence.lower().split()
        assert words.count(before.lower()) == words.count(after.lower()) == 1
        assert words.index(before.lower()) < words.index(after.lower())
        places.append(words.index(before.lower()) / len(words))
    assert 0.15 < np.mean(places) < 0.4  # pairs are not restricted to neighbours or first words


def test_lengths_have_the_bins_of_adi_et_al() -> None:
    part = [Sentence(("w",) * count, None, None, None) for count in (1, 4, 5, 8, 9, 29, 30, 33, 34, 70, 71)]
    found = questions("length", {"train": part}, 0)["train"]
    assert [len(text.split()) for text in found.sentences] == [5, 8, 9, 29, 30, 33, 34, 70]
    assert found.labels.tolist() == [0, 0, 1, 5, 6, 6, 7, 7]
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(LENGTH_BINS))


def test_top_sequences_are_the_commonest_of_training() -> None:
    by_part = questions("tss", PARTS, 0)
    count = Counter(sentence.top for sentence in PARTS["train"])
    assert set(by_part["train"].labels) == set(range(20))
    texts = {sentence.text: sentence.top for sentence in PARTS["train"]}
    common = {
        texts[text]
        for text, label in zip(by_part["train"].sentences, by_part["train"].labels, strict=True)
        if label < 19
    }
    assert len(common) == 19 and min(count[top] for top in common) >= max(
        count[top] for top in set(count) - common
    )
    unseen = [Sentence(("a",), None, None, top) for top in ("unheard", None)]
    assert questions("tss", PARTS | {"test": unseen}, 0)["test"].labels.tolist() == [19]


def test_questions_depend_only_on_the_seed() -> None:
    for probe in ("content", "order"):
        assert questions(probe, PARTS, 0)["test"].words == questions(probe, PARTS, 0)["test"].words
        assert questions(probe, PARTS, 0)["test"].words != questions(probe, PARTS, 1)["test"].words


def test_voice_and_tense_questions_need_a_verb() -> None:
    part = [
        Sentence((word,), passive, past, None)
        for word, passive, past in zip("abc", (True, False, None), (False, True, None), strict=True)
    ]
    for probe, labels in (("passive", [1, 0]), ("tense", [0, 1])):
        found = questions(probe, {"train": part}, 0)["train"]
        assert (found.sentences, found.labels.tolist()) == (["a", "b"], labels)


def test_chance_and_majority_levels_by_hand() -> None:
    found = guesses("length", np.array([1, 1, 2, 0]), np.array([1, 2, 2, 2]))
    assert found == {"chance": 12.5, "majority": 25.0}


def test_a_perceptron_finds_words_in_a_bag_of_words_and_a_linear_probe_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainers, "DEV_EVALUATIONS", 6)
    words = [f"{letter}{n}" for n in range(20) for letter in "wW"]
    model = bag(tmp_path, words, dimension=16)
    parts = {
        name: sentences(count, seed, 20)
        for seed, (name, count) in enumerate((("train", 1200), ("dev", 200), ("test", 300)))
    }
    by_probe = {"content": questions("content", parts, 0), "passive": questions("passive", parts, 0)}
    found = evaluate_probes(model, by_probe)
    content = found["content"]
    assert content["words"] == "table" and content["n_test"] == len(by_probe["content"]["test"].labels)
    assert content["logistic"]["test"] < 60 and content["mlp"]["test"] > 70
    assert "mlp" not in found["passive"] and "words" not in found["passive"]


def test_features_are_the_vectors_of_sentence_and_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word is looked up in lower case, then as written; an unknown word has a zero vector."""
    model = bag(tmp_path, ["a", "b", "B", "C"])
    part = Questions(["a b", "b B"], [["C", "B"], ["unknown", "A"]], np.array([1, 0]))
    fitted_features = []

    def fit(examples: trainers.ProbeData, **options: object) -> trainers.Probe:
        fitted_features.append(examples.features)
        return trainers.Probe(0.0, 0.0, np.zeros(2, np.int64), 0.0)

    monkeypatch.setattr(trainers, "_standardise", lambda features, train: None)
    monkeypatch.setattr(probes, "fit_linear", fit)
    monkeypatch.setattr(probes, "fit_hidden", fit)
    evaluate_probes(model, {"order": dict.fromkeys(("train", "dev", "test"), part)})
    a, b, capital, c = model.rows(["a", "b", "B", "C"])
    expected = [[*(a + b) / 2, *c, *np.zeros(8)], [*(b + capital) / 2, *b, *a]] * 3
    for rows in fitted_features:
        np.testing.assert_allclose(rows, expected, atol=1e-6)


def test_printed_rows_are_marked_as_other_data() -> None:
    scores = {"mlp": {"test": 60.0}, "logistic": {"test": 50.0}, "chance": 50.0, "majority": 50.0}
    counts = {"n_train": 1000, "n_dev": 20, "n_test": 30}
    grid = table([{"model": {"name": "a"}, "probes": {"content": scores | counts}}])
    assert [row.label for row in grid.ours] == ["a (mlp)", "a (logistic)"]
    assert [row.label for row in grid.printed][:3] == [
        "this data: chance",
        "this data: majority",
        "gensen, other data: Majority Baseline",
    ]
    assert any("not comparable" in note for note in grid.notes)
    assert "Content 1,000 / 20 / 30" in grid.notes[0]


def test_the_command_writes_table_and_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tree_folder(tmp_path / "trees"), tmp_path / "found.json"
    options: dict[str, Any] = {"models": ["random_vectors"], "cache": None, "data": str(folder), "out": str(out)}
    report_probes(**options, probes=["tense", "tss"], format="md")
    output = capsys.readouterr().out
    assert "| model | Tense | TSS |" in output and "gensen, other data: Infersent" in output
    record = json.loads(out.read_text())
    tense = record["probes"][0]["probes"]["tense"]
    assert tense["chance"] == 50.0 and 30 < tense["logistic"]["test"] < 70  # random vectors encode no tense
    assert tense["n_train"] == len(read_parts(str(folder))["train"])
    with pytest.raises(UserError):  # all training examples are of one class
        report_probes(**options, probes=["passive"])


def test_all_probes_have_titles_and_builders() -> None:
    model = Model("random", RandomVectors(dimension=4))
    assert set(probes.TITLES) == set(probes.CLASSES) == set(PROBES) == {"tss", *probes._MAKERS}
    assert model.rows(["a"]).shape == (1, 4)
