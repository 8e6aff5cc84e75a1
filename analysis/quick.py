"""Evaluates an encoder on held-out text only: retrieval of a nearby span, geometry, three probing tasks.

The same texts and seed give the same questions for every encoder, as spans and sentences consist of white-space
words, and only ``encode`` is called.

- recall@k, alignment and uniformity of anchor spans and their positives (nearby spans without overlap), and
  isotropy of sentences: see ``analysis.geometry``.
- sentence length, word content and bigram shift after Conneau et al. (2018, section 2), with SentEval's linear
  classifier, trained and tested on different documents. Small versions: not for comparison with the paper.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from analysis.geometry import RANKS, measure_geometry
from data.randomness import EVALUATED_PAIRS, EVALUATED_SPLIT, PROBE, generator
from data.sentences import split_sentences

MAX_PAIRS = 400
SPAN_WORDS = (16, 48)  # words of an anchor and of a positive, both ends included
MAX_GAP = 32  # words between anchor and positive
STRETCH_WORDS = 512  # words of a document per additional pair
MAX_SENTENCES = 2000  # whose isotropy is measured

PROBE_WORDS = 250_000  # words of held-out text that the probing sentences come from
TRAIN_SHARE = 2 / 3  # of the documents
LIMITS = 1200, 600  # sentences of a probing task for training and testing, at most
MIN_TRAIN, MIN_TEST = 120, 60
SENTENCE_WORDS = range(5, 29)
LENGTH_CLASSES = (5, 9, 13, 17, 21, 26)  # words of the shortest sentences of each; Conneau et al. (2018)
CONTENT_WORDS = 20
FUNCTION_WORDS = 100  # the most frequent words, excluded from word content
L2 = 0.03  # of a probe's classifier, for standardised features
UPDATES = 1000  # of a probe's classifier

Scores = Mapping[str, float | None]
SentenceParts = Sequence[list[str]]  # sentences for training and for testing
Labels = dict[str, int]  # class by sentence


# Names of the scores in tables by their keys in quick.json; page.html defines them.
PERCENTAGES = {  # more is better
    "recall@1": "recall@1",
    "recall@5": "recall@5",
    "probe_length": "probe: sentence length",
    "probe_word_content": "probe: word content",
    "probe_bigram_shift": "probe: bigram shift",
}
GEOMETRY = {"alignment": "alignment", "uniformity": "uniformity"}  # less is better, but only of both together
ISOTROPY = {"mean_cosine": "mean cosine", "effective_rank": "effective rank", "iso_score": "IsoScore"}
LABELS = PERCENTAGES | GEOMETRY | ISOTROPY


def evaluate(encoder: Any, texts: Sequence[str], *, seed: int) -> dict[str, float | None]:
    """Evaluates ``encoder`` on questions made from held-out text.

    Args:
        encoder: anything with ``encode``.
        texts: whole documents that it was not trained on.
        seed: seed of the questions.

    Returns:
        The scores of ``LABELS``, and the number of questions behind them: ``n_pairs``, ``n_sentences``, and
        ``n_probe_*`` (test sentences). A score with too few questions is None.
    """
    from analysis.senteval.classifiers.probe import ProbeData, linear_probe  # late: commands check keys first

    *samples, parts = draw_texts(texts, seed)
    probes = {key: make_questions(key, parts, generator(PROBE, seed, number)) for number, key in enumerate(PROBES)}

    # One call for all, so that the encoder can sort everything by length; equal sentences are encoded once.
    distinct = [*dict.fromkeys(chain(*samples, *chain(*probes.values())))]
    vectors = dict(zip(distinct, np.asarray(encoder.encode(distinct)), strict=True))

    scores: dict[str, float | None] = {
        **dict.fromkeys(LABELS),
        **measure_geometry(*(np.array([vectors[text] for text in sample], float) for sample in samples)),
        "n_pairs": len(samples[0]),
        "n_sentences": len(samples[2]),
    }
    for key, (train, test) in probes.items():
        scores[f"n_{key}"] = len(test)
        if len(train) >= MIN_TRAIN and len(test) >= MIN_TEST:
            features = np.array([vectors[sentence] for sentence in (*train, *test)], np.float32)
            examples = ProbeData(features, np.array([*train.values(), *test.values()]), train=len(train))
            scores[key] = examples.accuracy(linear_probe(examples, l2=[L2], updates=UPDATES))
    return scores


def chance_levels(scores: Scores) -> dict[str, float | None]:
    """Returns the chance level of each score that has one, in its unit.

    The chance level of a held-out loss is that of predicting from unigram frequencies only (``<loss>_unigram``).
    """
    pairs = scores.get("n_pairs")
    return {
        **{key.removesuffix("_unigram"): value for key, value in scores.items() if key.endswith("_unigram")},
        **{f"recall@{k}": min(100.0, 100.0 * k / pairs) for k in RANKS if pairs},
        **{key: 100.0 / classes for key, (_, classes) in PROBES.items()},
    }


def draw_texts(texts: Sequence[str], seed: int) -> tuple[list[str], list[str], list[str], SentenceParts]:
    """Draws anchors, their positives, and up to MAX_SENTENCES distinct sentences of all sentences, by part."""
    parts = draw_sentences(texts, generator(EVALUATED_SPLIT, seed))
    sentences = [*dict.fromkeys(chain(*parts))]
    order = generator(EVALUATED_SPLIT, seed, 1).permutation(len(sentences))[:MAX_SENTENCES]
    anchors, positives = draw_pairs(texts, generator(EVALUATED_PAIRS, seed))
    return anchors, positives, [sentences[index] for index in order], parts


# Spans


def draw_pairs(texts: Sequence[str], rng: Generator) -> list[list[str]]:
    """Draws up to MAX_PAIRS anchors and their positives: spans of SPAN_WORDS words, 0 to MAX_GAP words apart.

    Each document gives one pair. If there are fewer documents than MAX_PAIRS, long ones give several, each from a
    separate stretch of at least STRETCH_WORDS words. Documents too short for a pair give none.

    Returns:
        The anchors and the positives.
    """
    low, high = SPAN_WORDS
    documents = [words for words in map(str.split, texts) if len(words) >= 2 * high + MAX_GAP]
    pairs = []
    for index in rng.permutation(len(documents))[:MAX_PAIRS]:
        words = documents[index]
        count = min(-(-MAX_PAIRS // len(documents)), max(1, len(words) // STRETCH_WORDS))
        for start, end in pairwise(len(words) * np.arange(count + 1) // count):
            first, second = rng.integers(low, high, size=2, endpoint=True)
            gap = rng.integers(MAX_GAP, endpoint=True)
            start += rng.integers(end - start - first - gap - second, endpoint=True)
            spans = words[start:][:first], words[start + first + gap :][:second]
            pairs.append([" ".join(span) for span in spans][:: 1 - 2 * rng.integers(2)])
    return [[pair[side] for pair in pairs[:MAX_PAIRS]] for side in range(2)]


# Probing


def draw_sentences(texts: Sequence[str], rng: Generator) -> SentenceParts:
    """Draws sentences of SENTENCE_WORDS words from PROBE_WORDS words of text.

    Returns:
        The sentences for training and those for testing, from different documents.
    """
    documents, remaining = [], PROBE_WORDS
    for index in rng.permutation(len(texts)):
        words = texts[index].split()[: max(400, PROBE_WORDS // len(texts))][:remaining]
        if remaining:
            documents.append(" ".join(words))
        remaining -= len(words)
    cut = round(TRAIN_SHARE * len(documents))
    parts = map(split_sentences, (documents[:cut], documents[cut:]))
    return [[text for text in part if len(text.split()) in SENTENCE_WORDS] for part in parts]


def label_length(part: Sequence[str], parts: SentenceParts, rng: Generator) -> Labels:
    """Labels sentences with the class of their number of words."""
    return {text: bisect(LENGTH_CLASSES, len(text.split())) - 1 for text in part}


def label_content(part: Sequence[str], parts: SentenceParts, rng: Generator) -> Labels:
    """Labels sentences with the only one of CONTENT_WORDS words of medium frequency that they contain."""
    train, test = (Counter(chain(*map(list_words, sentences))) for sentences in parts)
    total = train + test
    ranked = sorted(total, key=lambda word: (-total[word], word))[FUNCTION_WORDS:]
    ranked.sort(key=lambda word: -min(train[word] / 2, test[word]))  # as LIMITS
    chosen = sorted(ranked[:CONTENT_WORDS])
    words = {text: list_words(text).intersection(chosen) for text in part}
    return {text: chosen.index(known.pop()) for text, known in words.items() if len(known) == 1}


def list_words(text: str) -> set[str]:
    """Returns the words of three letters and more, in lower case."""
    return {*re.findall(r"[a-z]{3,}", text.lower())}


def label_order(part: Sequence[str], parts: SentenceParts, rng: Generator) -> Labels:
    """Swaps two adjacent words in every second sentence, in random order, and labels it with 1, the others with 0.

    The first word and words with a capital or punctuation are never swapped, as they would give the swap away.
    """
    usable = [*filter(swappable, map(str.split, part))]
    labels = {}
    for rank, index in enumerate(rng.permutation(len(usable))):
        words = usable[index]
        if rank % 2:
            at = rng.choice(swappable(words))
            words[at : at + 2] = words[at + 1], words[at]
        labels[" ".join(words)] = rank % 2
    return labels


def swappable(words: Sequence[str]) -> list[int]:
    """Returns positions i > 0 such that words i and i + 1 differ and are both plain lower-case words."""
    return [
        place
        for place, (a, b) in enumerate(pairwise(words))
        if place and a != b and (a + b).isalpha() and a.islower() and b.islower()
    ]


def make_questions(probe: str, parts: SentenceParts, rng: Generator) -> list[Labels]:
    """Draws random sentences of a probing task for each part: of each class as many as the rarest has, at most."""
    label, classes = PROBES[probe]
    drawn = []
    for labels, limit in zip([label(part, parts, rng) for part in parts], LIMITS, strict=True):
        groups = [[text for text in labels if labels[text] == number] for number in range(classes)]
        count = min(limit // classes, *map(len, groups))
        texts = [group[index] for group in groups for index in rng.permutation(len(group))[:count]]
        drawn.append({text: labels[text] for text in texts})
    return drawn


# Function that labels sentences, and number of classes. The position is the number of a task's random stream.
PROBES = {
    "probe_length": (label_length, len(LENGTH_CLASSES)),
    "probe_word_content": (label_content, CONTENT_WORDS),
    "probe_bigram_shift": (label_order, 2),
}
