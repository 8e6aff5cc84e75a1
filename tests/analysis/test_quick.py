"""The quick evaluation against naive loops, hand-solved cases, and encoders that encode one property each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from analysis import quick
from data.randomness import generator

PROBES = ("probe_length", "probe_word_content", "probe_bigram_shift")
Vectors = Callable[[str], Sequence[float] | np.ndarray]


class FunctionEncoder:
    """Encoder that applies a function to each text and records the texts."""

    def __init__(self, vector: Vectors) -> None:
        self.vector = vector
        self.encoded: list[str] = []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.encoded = list(sentences)
        return np.array([self.vector(sentence) for sentence in sentences], dtype=np.float32)


def vocabulary(count: int) -> list[str]:
    """Returns different pronounceable words."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    return [f"{syllables[i % 70]}{syllables[i // 70 % 70]}{syllables[i * 13 % 70]}" for i in range(count)]


def documents(count: int, sentences: int = 60) -> list[str]:
    """Returns texts of Zipf-distributed words in sentences of 3 to 30 words; each has ten words of its own."""
    rng = generator(5)
    shared, own = np.split(vocabulary(1500), [400])
    weights = 1 / np.arange(10, 410)
    texts = []
    for number in range(count):
        lines = []
        for _ in range(sentences):
            drawn = rng.choice(shared, size=rng.integers(3, 31), p=weights / weights.sum())
            topical = rng.random(len(drawn)) < 0.2
            drawn[topical] = rng.choice(own[10 * number :][:10], size=topical.sum())
            lines.append(" ".join(drawn).capitalize() + ".")
        texts.append(" ".join(lines))
    return texts


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return documents(90)


WORD_VECTORS = dict(zip(vocabulary(1500), np.random.default_rng(2).normal(size=(1500, 300)), strict=True))


def bag(sentence: str) -> np.ndarray:
    """Returns the sum of the words' random vectors."""
    return np.sum([WORD_VECTORS[word] for word in sentence.lower().replace(".", "").split()], axis=0)


def test_pairs_are_close_and_do_not_overlap() -> None:
    numbered = [
        [f"{document}:{i}" for i in range(length)] for document, length in enumerate([128, 127, 300, 3000])
    ]
    for seed in range(30):
        anchors, positives = quick.draw_pairs([" ".join(words) for words in numbered], generator(seed))
        spans = []
        for anchor, positive in zip(anchors, positives, strict=True):
            a, p = anchor.split(), positive.split()
            assert 16 <= len(a) <= 48 and 16 <= len(p) <= 48
            document = int(a[0].split(":")[0])
            start = {words[0]: int(words[0].split(":")[1]) for words in (a, p)}
            assert numbered[document][start[a[0]] :][: len(a)] == a
            assert numbered[document][start[p[0]] :][: len(p)] == p
            first, second = sorted((a, p), key=lambda words: start[words[0]])
            assert 0 <= start[second[0]] - start[first[0]] - len(first) <= quick.MAX_GAP
            spans += a + p
        assert len(spans) == len(set(spans))  # pairs of one document do not overlap either
        counts = [sum(anchor.startswith(f"{document}:") for anchor in anchors) for document in range(4)]
        assert counts == [1, 0, 1, 3000 // quick.STRETCH_WORDS]


def test_both_orders_and_all_lengths_occur() -> None:
    text = " ".join(map(str, range(128)))
    drawn = [quick.draw_pairs([text], generator(seed)) for seed in range(2000)]
    before = np.mean([int(a.split()[0]) < int(p.split()[0]) for [a], [p] in drawn])
    assert abs(before - 0.5) < 0.05
    assert {len(a.split()) for [a], _ in drawn} == set(range(16, 49))
    assert len(quick.draw_pairs(["word " * 200] * 900, generator(0))[0]) == quick.MAX_PAIRS


def test_labels_of_probes_match_their_sentences(texts: list[str]) -> None:
    parts = quick.draw_sentences(texts, generator(0))
    known = [set(part) for part in parts]
    single = {*vocabulary(1500)[400:]}  # words of single documents, which are either trained or tested on
    train, test = (single.intersection(" ".join(part).lower().replace(".", "").split()) for part in parts)
    assert train and test and not train & test

    length, content, order = (
        [label(part, parts, generator(1)) for part in parts] for label, _ in quick.PROBES.values()
    )
    bounds = [*quick.LENGTH_CLASSES, 29]
    for part, labels in zip(known, length, strict=True):
        assert labels.keys() == part
        for text, number in labels.items():
            assert bounds[number] <= len(text.split()) < bounds[number + 1]

    by_class: list[list[set[str]]] = [[] for _ in range(quick.CONTENT_WORDS)]
    for text, number in (content[0] | content[1]).items():
        by_class[number].append(set(text.lower().replace(".", "").split()))
    shared = [set.intersection(*members) for members in by_class]
    for number, members in enumerate(by_class):
        others = set.union(*shared[:number], *shared[number + 1 :])
        assert shared[number] and not any(words & (others - shared[number]) for words in members)

    sentences = {tuple(text.split()) for text in known[0]}
    for text, number in order[0].items():
        words = text.split()
        swaps = [(*words[:i], words[i + 1], words[i], *words[i + 2 :]) for i in range(1, len(words) - 1)]
        assert (tuple(words) in sentences) == (number == 0)
        assert number == 0 or any(swap in sentences for swap in swaps)
        assert words[0][0].isupper() and text.endswith(".")


def test_a_bag_of_words_solves_topics_and_words_but_not_order(texts: list[str]) -> None:
    scores: dict[str, Any] = quick.evaluate(FunctionEncoder(bag), texts, seed=3)
    chance: dict[str, Any] = quick.chance_levels(scores)
    assert scores["recall@1"] > 8 * chance["recall@1"]
    assert scores["recall@5"] >= scores["recall@1"]
    assert scores["probe_word_content"] > 90
    assert 2 < scores["effective_rank"] < 300 and scores["n_sentences"] == 2000
    error = 100 * (0.25 / scores["n_probe_bigram_shift"]) ** 0.5
    assert abs(scores["probe_bigram_shift"] - 50) < 4 * error


def test_a_constant_encoder_scores_chance(texts: list[str]) -> None:
    scores = quick.evaluate(FunctionEncoder(lambda _: [1.0, 2.0]), texts, seed=3)
    assert scores["recall@5"] == 0 and scores["alignment"] == 0 and scores["uniformity"] == pytest.approx(0)
    assert scores["mean_cosine"] == pytest.approx(1) and scores["effective_rank"] == pytest.approx(1)
    for name in PROBES:
        assert scores[name] == pytest.approx(quick.chance_levels(scores)[name])


def test_every_encoder_gets_the_same_questions_and_another_seed_other_ones(texts: list[str]) -> None:
    def letters(sentence: str) -> list[int]:
        return [sentence.count(letter) for letter in "abdfgk"]

    encoders = [FunctionEncoder(vector) for vector in (letters, lambda _: [1.0, 2.0], letters, letters)]
    a, _, same, c = (
        quick.evaluate(encoder, texts[:30], seed=seed)
        for encoder, seed in zip(encoders, (1, 1, 1, 2), strict=True)
    )
    first, second, _, other = (encoder.encoded for encoder in encoders)
    assert first == second != other and len(set(first)) == len(first)
    assert a == same != c


@pytest.mark.parametrize("count", [0, 3])
def test_too_little_text_gives_no_score(count: int) -> None:
    scores = quick.evaluate(FunctionEncoder(bag), documents(count, sentences=12), seed=1)
    assert [scores[key] for key in quick.LABELS] == [None] * 10
    assert scores["n_pairs"] == count


def test_chance_levels_by_hand() -> None:
    probes = {"probe_length": 100 / 6, "probe_word_content": 5, "probe_bigram_shift": 50}
    assert quick.chance_levels({"n_pairs": 200}) == probes | {"recall@1": 0.5, "recall@5": 2.5}
    assert quick.chance_levels({"n_pairs": 0, "dev_fr": 3.0, "dev_fr_unigram": 5.5}) == probes | {"dev_fr": 5.5}
