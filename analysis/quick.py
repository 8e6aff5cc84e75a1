"""Evaluates an encoder on held-out text only: retrieval of a nearby span, geometry, three probing tasks.

The same texts and seed give the same questions for every encoder, as spans and sentences consist of white-space
words, and only ``encode`` is called.

- recall@k: share of anchor spans whose positive (a nearby span without overlap) is among the k most similar of
  all positives by cosine. Ties count as misses.
- alignment, mean |a - p|^2, and uniformity, log mean exp(-2 |x - y|^2), of normalised vectors
  (Wang & Isola 2020, section 4): both are better when smaller, and they trade off.
- sentence length, word content and bigram shift after Conneau et al. (2018, section 2), with SentEval's linear
  classifier, trained and tested on different documents. Small versions: not for comparison with the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from data.errors import UserError
from data.randomness import EVALUATED_PAIRS, EVALUATED_SPLIT, PROBE, generator
from data.sentences import split_sentences

MAX_PAIRS, MIN_PAIRS = 400, 20
SPAN_WORDS = (16, 48)  # words of an anchor and of a positive, both ends included
MAX_GAP = 32  # words between anchor and positive
STRETCH_WORDS = 512  # words of a document per additional pair
RANKS = (1, 5)  # k of recall@k

PROBE_WORDS = 250_000  # words of held-out text that the probing sentences come from
TRAIN_SHARE = 2 / 3  # of the documents
LIMITS = 1200, 600  # sentences of a probing task for training and testing, at most
MIN_TRAIN, MIN_TEST = 120, 60
LENGTH_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))  # words; Conneau et al. (2018)
BINS = {length: number for number, (low, high) in enumerate(LENGTH_BINS) for length in range(low, high + 1)}
CONTENT_WORDS = 20
FUNCTION_WORDS = 100  # the most frequent words, excluded from word content
L2 = 0.03  # of a probe's classifier, for standardised features
UPDATES = 1000  # of a probe's classifier
VERSION = 2  # of the probes' classifier, in quick.json; files of the first have no version

Scores = Mapping[str, float | None]
Parts = Sequence[list[str]]  # sentences for training and for testing
Labelled = list[tuple[int, str]]  # class and sentence


class Label(NamedTuple):
    """Key of a score in quick.json, its name in tables, and its definition."""

    key: str
    label: str
    definition: str


# Percentages, of which more is better.
PERCENTAGES = (
    Label(
        "recall@1",
        "recall@1",
        f"Share of anchors (spans of {SPAN_WORDS[0]} to {SPAN_WORDS[1]} words) whose positive, a nearby span of "
        "the same document, is the most similar of all positives by cosine. Ties count as errors.",
    ),
    Label("recall@5", "recall@5", "Share of anchors whose positive is among the five most similar."),
    Label(
        "probe_length",
        "probe: sentence length",
        "Accuracy of a linear classifier that predicts from the sentence vector which of "
        f"{len(LENGTH_BINS)} ranges of length the sentence falls into.",
    ),
    Label(
        "probe_word_content",
        "probe: word content",
        "Accuracy of a linear classifier that predicts from the sentence vector which of "
        f"{CONTENT_WORDS} words of medium frequency the sentence contains.",
    ),
    Label(
        "probe_bigram_shift",
        "probe: bigram shift",
        "Accuracy of a linear classifier that predicts from the sentence vector whether two adjacent words of the "
        "sentence were swapped.",
    ),
)
# Measures of the vector space, of which smaller is better, but only both together.
GEOMETRY = (
    Label(
        "alignment",
        "alignment",
        "Mean squared distance between the unit vectors of an anchor and its positive; smaller is better.",
    ),
    Label(
        "uniformity",
        "uniformity",
        "Logarithm of the mean Gaussian similarity of two anchors' unit vectors; smaller is better: the vectors "
        "are then spread more evenly. It trades off against alignment, so neither is ranked on its own.",
    ),
)


LABELS = {label.key: label for label in (*PERCENTAGES, *GEOMETRY)}


def evaluate(encoder: Any, texts: Sequence[str], *, seed: int) -> dict[str, float | None]:
    """Evaluates ``encoder`` on questions made from held-out text.

    Args:
        encoder: anything with ``encode``.
        texts: whole documents that it was not trained on.
        seed: seed of the questions.

    Returns:
        The scores of ``LABELS``, and the number of questions behind them: ``n_pairs``, and ``n_probe_*`` (test
        sentences). A score with too few questions is None.

    Raises:
        UserError: if a vector is not finite.
    """
    import pandas as pd  # late, as the next: commands check keys first

    from analysis.senteval.classifiers.probe import ProbeData, linear_probe

    pairs = draw_pairs(texts, generator(EVALUATED_PAIRS, seed))
    documents = split_documents(texts, generator(EVALUATED_SPLIT, seed))
    parts = [[text for text in split_sentences(part) if len(text.split()) in BINS] for part in documents]
    probes = {key: make_questions(key, parts, generator(PROBE, seed, number)) for number, key in enumerate(PROBES)}

    # One call for all, so that the encoder can sort everything by length; equal sentences are encoded once.
    asked = (text for questions in probes.values() for part in questions for _, text in part)
    distinct = [*dict.fromkeys([*pairs[0], *pairs[1], *asked])]
    vectors = pd.DataFrame(np.asarray(encoder.encode(distinct)), index=distinct, dtype=np.float64)
    if not np.isfinite(vectors.to_numpy()).all():
        hint = "Try a smaller optimizer.lr."
        raise UserError("the encoder's vectors are not finite, as its training diverged", hint=hint)

    scores: dict[str, float | None] = dict.fromkeys(LABELS)
    scores["n_pairs"] = len(pairs[0])
    if len(pairs[0]) >= MIN_PAIRS:
        first, second = (normalise(vectors.loc[spans].to_numpy()) for spans in pairs)
        scores |= {f"recall@{k}": recall(first, second, k) for k in RANKS}
        scores |= {"alignment": alignment(first, second), "uniformity": uniformity(first)}
    for key, (train, test) in probes.items():
        scores[f"n_{key}"] = len(test)
        if len(train) >= MIN_TRAIN and len(test) >= MIN_TEST:
            labels, sentences = map(list, zip(*train, *test, strict=True))
            features = vectors.loc[sentences].to_numpy(np.float32, copy=True)
            examples = ProbeData(features, np.array(labels), train=len(train))
            scores[key] = linear_probe(examples, l2=[L2], updates=UPDATES).test
    return scores


def chance_levels(scores: Scores) -> dict[str, float | None]:
    """Returns the chance level of each score that has one, in its unit.

    The chance level of a held-out loss is that of predicting from unigram frequencies only (``<loss>_unigram``).
    """
    levels = {key.removesuffix("_unigram"): value for key, value in scores.items() if key.endswith("_unigram")}
    if pairs := scores.get("n_pairs"):
        levels |= {f"recall@{k}": min(100.0, 100.0 * k / pairs) for k in RANKS}
    return levels | {key: 100.0 / classes for key, (_, classes) in PROBES.items()}


# Retrieval and geometry


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
        for number in range(count):
            start, end = (len(words) * bound // count for bound in (number, number + 1))
            first, second = rng.integers(low, high, size=2, endpoint=True)
            gap = rng.integers(MAX_GAP, endpoint=True)
            start += rng.integers(end - start - first - gap - second, endpoint=True)
            spans = words[start:][:first], words[start + first + gap :][:second]
            pairs.append([" ".join(span) for span in spans][:: 1 - 2 * rng.integers(2)])
    return [[pair[side] for pair in pairs[:MAX_PAIRS]] for side in range(2)]


def normalise(vectors: np.ndarray) -> np.ndarray:
    """Scales ``vectors``, of shape (n, D), to length 1; a zero vector stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / (norms + (norms == 0))


def recall(anchors: np.ndarray, positives: np.ndarray, k: int) -> float:
    """Returns the percentage of ``anchors`` (n, D) whose row of ``positives`` (n, D) is among the k nearest."""
    similarities = anchors @ positives.T
    # Ties within rounding count as misses, so that collapsed vectors score 0.
    nearer = (similarities >= similarities.diagonal()[:, None] - 1e-9).sum(axis=1) - 1
    return 100.0 * float((nearer < k).mean())


def alignment(anchors: np.ndarray, positives: np.ndarray) -> float:
    """Computes the mean squared distance of the pairs of two (n, D) arrays of unit vectors."""
    return float(((anchors - positives) ** 2).sum(axis=1).mean())


def uniformity(vectors: np.ndarray) -> float:
    """Computes log mean exp(-2 |x - y|^2) over all pairs of rows of ``vectors`` (n, D), unit vectors."""
    cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), k=1)]
    return float(np.log(np.exp(-4.0 * (1.0 - cosines).clip(0)).mean()))


# Probing


def split_documents(texts: Sequence[str], rng: Generator) -> tuple[list[str], list[str]]:
    """Splits documents for training and testing a probe, and cuts them to PROBE_WORDS words in all."""
    documents, remaining = [], PROBE_WORDS
    for index in rng.permutation(len(texts)):
        words = texts[index].split()[: max(400, PROBE_WORDS // len(texts))][:remaining]
        if remaining:
            documents.append(" ".join(words))
        remaining -= len(words)
    cut = round(TRAIN_SHARE * len(documents))
    return documents[:cut], documents[cut:]


def label_length(parts: Parts, rng: Generator) -> list[Labelled]:
    """Labels sentences with the bin of their number of words."""
    return [[(BINS[len(text.split())], text) for text in part] for part in parts]


def label_content(parts: Parts, rng: Generator) -> list[Labelled]:
    """Labels sentences with the only one of CONTENT_WORDS words of medium frequency that they contain."""
    words = [[({*re.findall(r"[a-z]{3,}", text.lower())}, text) for text in part] for part in parts]
    train, test = (Counter(word for known, _ in part for word in known) for part in words)
    total = train + test
    ranked = sorted(total, key=lambda word: (-total[word], word))[FUNCTION_WORDS:]
    ranked.sort(key=lambda word: -min(train[word] / 2, test[word]))  # as LIMITS
    labels = {word: number for number, word in enumerate(sorted(ranked[:CONTENT_WORDS]))}
    return [
        [(labels[hits.pop()], text) for known, text in part if len(hits := known & labels.keys()) == 1]
        for part in words
    ]


def label_order(parts: Parts, rng: Generator) -> list[Labelled]:
    """Swaps two adjacent words in every second sentence, in random order, and labels it with 1, the others with 0.

    The first word and words with a capital or punctuation are never swapped, as they would give the swap away.
    """
    labelled: list[Labelled] = [[] for _ in parts]
    for examples, part in zip(labelled, parts, strict=True):
        usable = [(words, places) for words in map(str.split, part) if (places := swappable(words))]
        for rank, index in enumerate(rng.permutation(len(usable))):
            words, places = usable[index]
            if rank % 2:
                at = places[rng.integers(len(places))]
                words[at : at + 2] = words[at + 1], words[at]
            examples.append((rank % 2, " ".join(words)))
    return labelled


def swappable(words: Sequence[str]) -> list[int]:
    """Returns positions i > 0 such that words i and i + 1 differ and are both plain lower-case words."""
    pairs = enumerate(pairwise(words))
    return [i for i, (a, b) in pairs if i and a != b and (a + b).isalpha() and a.islower() and b.islower()]


def make_questions(probe: str, parts: Parts, rng: Generator) -> list[Labelled]:
    """Draws random sentences of a probing task for each part: of each class as many as the rarest has, at most."""
    label, classes = PROBES[probe]
    drawn = []
    for examples, limit in zip(label(parts, rng), LIMITS, strict=True):
        groups = [[each for each in dict.fromkeys(examples) if each[0] == number] for number in range(classes)]
        count = min(limit // classes, *map(len, groups))
        drawn.append([group[index] for group in groups for index in rng.permutation(len(group))[:count]])
    return drawn


# Function that labels sentences, and number of classes. The position is the number of a task's random stream.
PROBES = {
    "probe_length": (label_length, len(LENGTH_BINS)),
    "probe_word_content": (label_content, CONTENT_WORDS),
    "probe_bigram_shift": (label_order, 2),
}
