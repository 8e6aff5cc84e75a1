"""Evaluates an encoder on held-out text only: retrieval of a span's neighbour, geometry, three probing tasks.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from analysis.senteval.features import Encodes
from data.errors import UserError
from data.randomness import EVALUATED_PAIRS, EVALUATED_SPLIT, PROBE, generator
from data.sentences import split_sentences

MAX_PAIRS = 400
MIN_PAIRS = 20
SPAN_WORDS = (16, 48)  # words of an anchor and of a positive, both ends included
MAX_GAP = 32  # words between anchor and positive
STRETCH_WORDS = 512  # words of a document per additional pair

PROBE_WORDS = 250_000  # words of held-out text that the probing sentences come from
TRAIN_SHARE = 2 / 3  # of the documents
TRAIN_SENTENCES, TEST_SENTENCES = 1200, 600  # of one probing task, at most
MIN_TRAIN, MIN_TEST = 120, 60
LENGTH_BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))  # words; Conneau et al. (2018)
CONTENT_WORDS = 20
FUNCTION_WORDS = 100  # the most frequent words, excluded from word content
L2 = 0.03  # of a probe's classifier, for standardised features
UPDATES = 1000  # of a probe's classifier
VERSION = 2  # of the probes' classifier, in quick.json; files of the first have no version

Scores = Mapping[str, float | None]


class Examples(NamedTuple):
    """Sentences of a probing task and their classes, of shape (n,)."""

    train: list[str]
    train_labels: np.ndarray
    test: list[str]
    test_labels: np.ndarray


@dataclass(frozen=True)
class Score:
    """A score: its presentation and its computation (from pairs, or as accuracy in a probing task)."""

    key: str  # in quick.json
    label: str  # for readers
    definition: str = ""
    group: str = ""  # prefix of the label in tables; tables of runs show the mean of a group
    higher_is_better: bool = True
    ranked: bool = True  # False: a better value is not an improvement by itself
    percent: bool = True  # only percentages are compared between runs
    decimals: int = 1
    chance: Callable[[Scores], float | None] = lambda scores: None
    of_pairs: Callable[[np.ndarray, np.ndarray], float] | None = None  # of unit vectors of anchors and positives
    examples: Callable[[list[str], list[str], np.random.Generator], Examples] | None = None  # of sentences

    @property
    def title(self) -> str:
        """Label with its group: "probe: word content"."""
        return f"{self.group}: {self.label}" if self.group else self.label

    @property
    def count(self) -> str:
        """Key of its number of questions; "" for a held-out loss."""
        return f"n_{self.key}" if self.examples else "n_pairs" if self.of_pairs else ""


def evaluate(encoder: Encodes, texts: list[str], *, seed: int) -> dict[str, float | None]:
    """Evaluates ``encoder`` on questions made from held-out text.

    Args:
        encoder: anything with ``encode``.
        texts: whole documents that it was not trained on.
        seed: seed of the questions.

    Returns:
        Each of ``SCORES``, and the number of questions behind them: ``n_pairs``, and ``n_probe_*`` (test
        sentences). A score with too few questions is None; ``missing`` gives the reason.

    Raises:
        UserError: if a vector is not finite.
    """
    anchors, positives = draw_pairs(texts, generator(EVALUATED_PAIRS, seed))
    train, test = split_documents(texts, generator(EVALUATED_SPLIT, seed))
    sentences = split_sentences(train), split_sentences(test)
    tasks = {key: score.examples for key, score in SCORES.items() if score.examples}
    probes = {
        key: make(*sentences, generator(PROBE, seed, number)) for number, (key, make) in enumerate(tasks.items())
    }

    # One call for all, so that the encoder can sort everything by length; equal sentences are encoded once.
    all_sentences = anchors + positives + [s for probe in probes.values() for s in probe.train + probe.test]
    place = {sentence: index for index, sentence in enumerate(dict.fromkeys(all_sentences))}
    vectors = np.asarray(encoder.encode(list(place)), dtype=np.float64) if place else np.empty((0, 1))
    if not np.isfinite(vectors).all():
        raise UserError(
            "The encoder gives vectors that are not finite: its training diverged. Try a smaller optimizer.lr."
        )

    def look_up(wanted: list[str]) -> np.ndarray:
        return vectors[[place[sentence] for sentence in wanted]]

    of_pairs = {key: score.of_pairs for key, score in SCORES.items() if score.of_pairs}
    scores: dict[str, float | None] = dict.fromkeys(of_pairs)
    if len(anchors) >= MIN_PAIRS:
        pairs = normalise(look_up(anchors)), normalise(look_up(positives))
        scores |= {key: compute(*pairs) for key, compute in of_pairs.items()}
    scores["n_pairs"] = len(anchors)
    for key, probe in probes.items():
        enough = len(probe.train) >= MIN_TRAIN and len(probe.test) >= MIN_TEST
        scores[key] = (
            accuracy(look_up(probe.train), probe.train_labels, look_up(probe.test), probe.test_labels)
            if enough
            else None
        )
        scores[f"n_{key}"] = len(probe.test)
    return scores


def score_of(name: str) -> Score:
    """Returns the record of score ``name``, which is one of ``SCORES`` or a held-out loss or accuracy (``dev_*``).

    The chance level of a loss is that of predicting from unigram frequencies only (``<name>_unigram``).
    """
    share = name.endswith("_accuracy")
    return SCORES.get(name) or Score(
        name,
        name.replace("_", " "),
        higher_is_better=share,
        percent=share,
        decimals=1 if share else 3,
        chance=lambda scores: scores.get(f"{name}_unigram"),
    )


def chance(name: str, scores: Scores) -> float | None:
    """Returns the chance level of score ``name``, in its unit; None if it has none."""
    return score_of(name).chance(scores)


def missing(name: str, scores: Scores) -> str | None:
    """Returns a line that gives the reason why score ``name`` is None; None if it is not."""
    if name not in scores or scores[name] is not None:
        return None
    score = score_of(name)
    what, least = ("test sentences", MIN_TEST) if score.examples else ("pairs of spans", MIN_PAIRS)
    return f"{score.title}: held-out text gives {scores.get(score.count, 0)} {what}; {least} are needed"


# Retrieval and geometry


def draw_pairs(texts: Sequence[str], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Draws up to MAX_PAIRS anchors and their positives: spans of SPAN_WORDS words, 0 to MAX_GAP words apart.

    Each document gives one pair. If there are fewer documents than MAX_PAIRS, long ones give several, each from a
    stretch of its own of at least STRETCH_WORDS words. Documents too short for a pair give none.
    """
    low, high = SPAN_WORDS
    documents = [words for words in (text.split() for text in texts) if len(words) >= 2 * high + MAX_GAP]
    order = rng.permutation(len(documents))[:MAX_PAIRS]
    wanted = -(-MAX_PAIRS // max(1, len(order)))
    stretches = []
    for index in order:
        words = documents[index]
        count = min(wanted, max(1, len(words) // STRETCH_WORDS))
        stretches += [words[len(words) * i // count : len(words) * (i + 1) // count] for i in range(count)]
    anchors, positives = [], []
    for words in stretches[:MAX_PAIRS]:
        first, second = rng.integers(low, high, size=2, endpoint=True)
        gap = rng.integers(0, MAX_GAP, endpoint=True)
        start = rng.integers(0, len(words) - first - gap - second, endpoint=True)
        spans = [
            " ".join(words[start : start + first]),
            " ".join(words[start + first + gap : start + first + gap + second]),
        ]
        anchor = rng.integers(2)
        anchors.append(spans[anchor])
        positives.append(spans[1 - anchor])
    return anchors, positives


def normalise(vectors: np.ndarray) -> np.ndarray:
    """Scales ``vectors``, of shape (n, D), to length 1; a zero vector stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)


def recall(anchors: np.ndarray, positives: np.ndarray, k: int) -> float:
    """Returns the percentage of ``anchors`` (n, D) whose row of ``positives`` (n, D) is among the k nearest."""
    similarities = anchors @ positives.T
    own = similarities.diagonal()[:, None]
    # Ties within rounding count as misses, so that collapsed vectors score 0.
    nearer = (similarities >= own - 1e-9).sum(axis=1) - 1
    return 100.0 * float(np.mean(nearer < k))


def alignment(anchors: np.ndarray, positives: np.ndarray) -> float:
    """Computes the mean squared distance of the pairs of two (n, D) arrays of unit vectors."""
    return float(np.mean(np.sum((anchors - positives) ** 2, axis=1)))


def uniformity(vectors: np.ndarray) -> float:
    """Computes log mean exp(-2 |x - y|^2) over all pairs of rows of ``vectors`` (n, D), unit vectors."""
    upper = np.triu_indices(len(vectors), k=1)
    squared = np.maximum(0.0, 2.0 - 2.0 * (vectors @ vectors.T)[upper])
    return float(np.log(np.mean(np.exp(-2.0 * squared))))


# Probing


def split_documents(texts: Sequence[str], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Splits documents for training and testing a probe, and cuts them to PROBE_WORDS words in all."""
    share = max(400, PROBE_WORDS // max(1, len(texts)))
    documents = []
    total = 0
    for index in rng.permutation(len(texts)):
        words = texts[index].split()[: min(share, PROBE_WORDS - total)]
        total += len(words)
        documents.append(" ".join(words))
        if total >= PROBE_WORDS:
            break
    cut = round(TRAIN_SHARE * len(documents))
    return documents[:cut], documents[cut:]


def length_examples(train: list[str], test: list[str], rng: np.random.Generator) -> Examples:
    """Returns sentences whose class is the bin of LENGTH_BINS of their number of words."""

    def bins(sentences: list[str]) -> list[list[str]]:
        lengths = [(len(sentence.split()), sentence) for sentence in sentences]
        return [[s for length, s in lengths if low <= length <= high] for low, high in LENGTH_BINS]

    return _balance(bins(train), bins(test), rng)


def word_content_examples(train: list[str], test: list[str], rng: np.random.Generator) -> Examples:
    """Returns sentences by the only one of CONTENT_WORDS words of medium frequency that they contain."""
    found = [[(sentence, _content(sentence)) for sentence in _middling(part)] for part in (train, test)]
    counts = [Counter(word for _, words in part for word in words) for part in found]
    both = counts[0] + counts[1]
    ranked = sorted(both, key=lambda word: (-both[word], word))[FUNCTION_WORDS:]
    ranked.sort(key=lambda word: -min(counts[0][word] * TEST_SENTENCES / TRAIN_SENTENCES, counts[1][word]))
    chosen = {word: label for label, word in enumerate(sorted(ranked[:CONTENT_WORDS]))}

    def classes(part: list[tuple[str, set[str]]]) -> list[list[str]]:
        result: list[list[str]] = [[] for _ in range(CONTENT_WORDS)]
        for sentence, words in part:
            hits = words & chosen.keys()
            if len(hits) == 1:
                result[chosen[hits.pop()]].append(sentence)
        return result

    return _balance(classes(found[0]), classes(found[1]), rng)


def bigram_shift_examples(train: list[str], test: list[str], rng: np.random.Generator) -> Examples:
    """Returns sentences, half of them with two adjacent words swapped.

    The first word and words with a capital or punctuation are never swapped, as they would give the swap away.
    """

    def classes(sentences: list[str]) -> list[list[str]]:
        halves: tuple[list[str], list[str]] = [], []  # whole, swapped
        usable = [(sentence.split(), places) for sentence in _middling(sentences) if (places := _swaps(sentence))]
        for rank, index in enumerate(rng.permutation(len(usable))):
            words, places = usable[index]
            if rank % 2:
                at = places[rng.integers(len(places))]
                words[at], words[at + 1] = words[at + 1], words[at]
            halves[rank % 2].append(" ".join(words))
        return list(halves)

    return _balance(classes(train), classes(test), rng)


def accuracy(train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> float:
    """Computes the test accuracy in percent of logistic regression on standardised vectors of shape (n, D)."""
    from analysis.senteval.classifiers.probe import ProbeData, fit_linear  # late: commands check keys first

    features = np.concatenate([train, test]).astype(np.float32)
    data = ProbeData(features, np.concatenate([train_labels, test_labels]), train=len(train))
    return fit_linear(data, l2=[L2], updates=UPDATES).test


def _balance(train: list[list[str]], test: list[list[str]], rng: np.random.Generator) -> Examples:
    """Draws equally many random sentences of each class: as many as the rarest has, up to the task's size."""

    def draw(classes: list[list[str]], limit: int) -> tuple[list[str], np.ndarray]:
        distinct = [list(dict.fromkeys(sentences)) for sentences in classes]
        count = min(limit // len(classes), *map(len, distinct))
        drawn = [[sentences[i] for i in rng.permutation(len(sentences))[:count]] for sentences in distinct]
        return [s for sentences in drawn for s in sentences], np.repeat(np.arange(len(classes)), count)

    return Examples(*draw(train, TRAIN_SENTENCES), *draw(test, TEST_SENTENCES))


def _middling(sentences: list[str]) -> list[str]:
    """Returns the sentences whose number of words is within LENGTH_BINS."""
    return [sentence for sentence in sentences if LENGTH_BINS[0][0] <= len(sentence.split()) <= LENGTH_BINS[-1][1]]


def _content(sentence: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", sentence.lower()))


def _swaps(sentence: str) -> list[int]:
    """Returns positions i such that words i and i + 1 differ and are both plain lower-case words, i > 0."""
    words = sentence.split()
    plain = [word.isalpha() and word.islower() for word in words]
    return [i for i in range(1, len(words) - 1) if plain[i] and plain[i + 1] and words[i] != words[i + 1]]


# The scores, in the order in which they are shown


def _recall(k: int, definition: str) -> Score:
    def random(scores: Scores) -> float | None:
        return min(100.0, 100.0 * k / pairs) if (pairs := scores.get("n_pairs")) else None

    return Score(f"recall@{k}", f"recall@{k}", definition, chance=random, of_pairs=partial(recall, k=k))


def _probe(name: str, label: str, examples: Callable[..., Examples], classes: int, predicted: str) -> Score:
    definition = (
        f"Accuracy of a linear classifier that predicts from the sentence vector {predicted.format(classes)}."
    )
    return Score(
        f"probe_{name}", label, definition, group="probe", chance=lambda _: 100.0 / classes, examples=examples
    )


_geometry = partial(Score, higher_is_better=False, ranked=False, percent=False, decimals=3)
SCORES = {score.key: score for score in (
    _recall(1,
        f"Share of anchors (spans of {SPAN_WORDS[0]} to {SPAN_WORDS[1]} words) whose positive, a span close by in "
        "the same document, is the most similar of all positives by cosine. Ties count as errors."),
    _recall(5, "Share of anchors whose positive is among the five most similar."),
    # New probing tasks are appended: the position is the number of a task's random stream.
    _probe("length", "sentence length", length_examples, len(LENGTH_BINS),
        "which of {} ranges of length the sentence falls into"),
    _probe("word_content", "word content", word_content_examples, CONTENT_WORDS,
        "which of {} words of medium frequency the sentence contains"),
    _probe("bigram_shift", "bigram shift", bigram_shift_examples, 2,
        "whether two adjacent words of the sentence were swapped"),
    _geometry("alignment", "alignment",
        "Mean squared distance between the unit vectors of an anchor and its positive; smaller is better.",
        of_pairs=alignment),
    _geometry("uniformity", "uniformity",
        "Logarithm of the mean Gaussian similarity of two anchors' unit vectors; smaller is better: vectors are "
        "then spread more evenly. It pulls against alignment, so that neither is ranked on its own.",
        of_pairs=lambda anchors, _: uniformity(anchors)),
)}  # fmt: skip
PERCENTAGES = [score for score in SCORES.values() if score.percent]
