"""Segment pairs: positives are adjacent, negatives are not, and lengths do not reveal the class; refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences
from data.sources.base import PART_NAMES
from data.store import TokenTable, prepare
from data.tokenizer import train_words
from data.views import segments
from data.views.segments import Place, RunningText, SegmentPair
from tests.data.samples import Document, Listed

ROOM = 60
Draw = Callable[[Place, int, np.random.Generator, float], SegmentPair]
DRAWS: dict[str, Draw] = {
    "nsp": segments.next_segments,
    "published": segments.published_segments,
    "sop": segments.ordered_segments,
}


class Numbered:
    """Documents of sentences of random lengths, whose tokens are numbered consecutively over all documents.

    The last third of the documents is the held-out part.
    """

    def __init__(self, documents: int = 60, sentences: int = 40, longest: int = 40, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        counts = rng.integers(2, sentences, size=documents)
        self.documents = np.repeat(np.arange(documents), counts)
        self.lengths = rng.integers(1, longest, size=len(self.documents))
        self.ends = np.cumsum(self.lengths)
        self.sentences = np.split(np.arange(self.ends[-1]), self.ends[:-1])
        self.dev = self.documents >= documents * 2 // 3

    def document(self, token: int) -> int:
        return int(self.documents[np.searchsorted(self.ends, token, side="right")])

    def places(self, name: str, room: int = ROOM) -> np.ndarray:
        last = np.append(np.flatnonzero(np.diff(self.documents)), len(self.documents) - 1)
        left = self.ends[last][self.documents] - self.ends
        first = np.append(0, last[:-1] + 1)[self.documents]
        usable = {
            "nsp": (np.arange(len(first)) > first) & (left + self.lengths >= room - 1),
            "sop": left > 0,
            "published": left >= 0,
        }[name]
        return np.flatnonzero(usable)

    def text(self, name: str, room: int = ROOM) -> tuple[RunningText, np.ndarray]:
        places = self.places(name, room)
        parts = places[~self.dev[places]], places[self.dev[places]]
        return RunningText(self.sentences, self.documents, *parts), places

    def pairs(self, name: str, count: int, room: int = ROOM, short: float = 0.1) -> list[tuple[int, SegmentPair]]:
        """Returns random places, and a pair sampled at each."""
        text, places = self.text(name, room)
        chosen = np.random.default_rng(1).choice(places, count)
        return [
            (int(i), DRAWS[name](text[int(i)], room, generator(2, step, int(i)), short))
            for step, i in enumerate(chosen)
        ]


def is_run(tokens: np.ndarray) -> bool:
    return bool((np.diff(tokens) == 1).all())


def boundary_marks(corpus: Numbered, pair: SegmentPair) -> tuple[bool, ...]:
    """Returns whether each segment begins and ends at a sentence boundary, and the second begins a document."""
    borders = {0, *corpus.ends.tolist()}
    ends = [int(end) in borders for part in pair[:2] for end in (part[0], part[-1] + 1)]
    begins = int(pair.second[0])
    return *ends, begins == 0 or corpus.document(begins) != corpus.document(begins - 1)


# Sampled pairs


@given(st.integers(0, 1000), st.integers(2, 90), st.sampled_from([3, 20, 60]))
def test_next_segments_are_adjacent_and_others_from_another_document_of_the_part(
    seed: int, room: int, longest: int
) -> None:
    corpus = Numbered(documents=9, sentences=30, longest=longest, seed=seed)
    text, places = corpus.text("nsp", room)
    starts = {0, *corpus.ends.tolist()}
    for part in (False, True):
        candidates = places[corpus.dev[places] == part]
        if len(np.unique(corpus.documents[candidates])) < 2:
            continue
        for start in candidates[:: max(1, len(candidates) // 5)].tolist():
            first, second, follows = segments.next_segments(text[start], room, generator(seed, start), 0.3)
            assert len(first) and len(second) and 2 <= len(first) + len(second) <= room
            assert is_run(first) and is_run(second) and int(second[0]) in starts
            own, other = corpus.document(first[0]), corpus.document(second[0])
            assert own == corpus.documents[start] == corpus.document(first[-1])
            assert other == corpus.document(second[-1])
            if follows:
                assert second[0] == first[-1] + 1 and own == other
            else:
                assert own != other and bool(corpus.dev[corpus.documents == other][0]) == part


def test_a_pair_fills_its_room_and_is_a_short_one_in_a_tenth_of_cases() -> None:
    lengths = np.array([len(pair.first) + len(pair.second) for _, pair in Numbered().pairs("nsp", 3000)])
    assert (lengths == ROOM).mean() == pytest.approx(0.9 + 0.1 / 59, abs=0.02)
    short = lengths[lengths < ROOM]
    assert short.min() < 8 and short.mean() == pytest.approx((2 + 59) / 2, abs=3)
    assert {len(pair.first) + len(pair.second) for _, pair in Numbered().pairs("nsp", 50, short=0.0)} == {ROOM}


@given(st.integers(0, 1000), st.integers(2, 90), st.sampled_from([3, 20, 60]))
def test_ordered_segments_are_neighbours_of_whole_sentences_or_cut_to_fit(
    seed: int, room: int, longest: int
) -> None:
    corpus = Numbered(documents=3, sentences=8, longest=longest, seed=seed)
    text, places = corpus.text("sop")
    borders = {0, *corpus.ends.tolist()}
    for start in places.tolist():
        pair = segments.ordered_segments(text[start], room, generator(seed, start), 0.3)
        first, second = (pair.first, pair.second) if pair.follows else (pair.second, pair.first)
        assert is_run(first) and is_run(second) and first[-1] < second[0]
        assert {*map(corpus.document, (first[0], second[-1]))} == {int(corpus.documents[start])}
        assert 2 <= len(first) + len(second) <= room
        if corpus.lengths[start] + corpus.lengths[start + 1] <= room:
            begins, ends = corpus.ends[start] - corpus.lengths[start], corpus.ends[start + 1]
            assert (first[0] == begins or second[-1] + 1 == ends) and second[0] == first[-1] + 1
            assert {int(second[0]), int(second[-1]) + 1} <= borders
        else:  # the two sentences do not fit
            assert len(first) + len(second) == room


def test_ordered_segments_are_split_between_any_two_sentences_that_fit() -> None:
    text = RunningText([np.full(n, n) for n in (3, 4, 5, 2, 6)], np.array([0, 0, 0, 0, 1]), np.arange(3))
    parted = {
        (tuple(np.unique(pair.first)), tuple(np.unique(pair.second)))
        for pair in (segments.ordered_segments(text[0], 13, generator(seed), 0.0) for seed in range(60))
    }
    onwards = {((3,), (4, 5)), ((4, 5), (3,)), ((3, 4), (5,)), ((5,), (3, 4))}
    assert parted == onwards | {((3,), (4,)), ((4,), (3,))}
    long = [segments.ordered_segments(text[1], 500, generator(seed), 0.0) for seed in range(20)]
    assert {len(first) + len(second) for first, second, _ in long} == {4 + 5 + 2, 3 + 4 + 5}


@given(st.integers(1, 30), st.integers(1, 30), st.integers(2, 40))
def test_the_longer_segment_loses_tokens_until_both_fit(first: int, second: int, room: int) -> None:
    left = [first, second]
    while sum(left) > room:  # as the published program does
        left[0 if left[0] > left[1] else 1] -= 1
    assert segments.fitted(first, second, room) == tuple(left)
    cut = segments.truncated(np.arange(first), np.arange(second), room, generator(first, second))
    assert [len(part) for part in cut] == left and all(is_run(part) for part in cut)


def test_negatives_are_sampled_uniformly_over_places_or_documents() -> None:
    documents = np.repeat([0, 1, 2, 3], [1, 6, 2, 3])
    text = RunningText([np.array([i]) for i in range(12)], documents, np.arange(9), np.arange(9, 12))
    for by_document, shares in ((False, {0: 1 / 3, 7: 1 / 3, 8: 1 / 3}), (True, {0: 1 / 2, 7: 1 / 4, 8: 1 / 4})):
        drawn = [text.elsewhere(3, generator(i), by_document=by_document) for i in range(3000)]
        assert {i: drawn.count(i) / 3000 for i in set(drawn)} == pytest.approx(shares, abs=0.04)


def test_published_pairs_equal_those_of_the_published_program() -> None:
    """Compares places, classes, ends of segments and the documents from which negatives come."""
    corpus = Numbered(longest=25)
    cases, first_ends, others = set(), set(), []
    for start, (first, second, follows) in corpus.pairs("published", 400, short=0.0):
        own = corpus.documents[start]
        chunk = [i for i in range(start, len(corpus.documents)) if corpus.documents[i] == own]
        reached = np.searchsorted(np.cumsum(corpus.lengths[chunk]), ROOM) + 1
        chunk = chunk[:reached]
        assert len(first) + len(second) <= ROOM
        assert len(chunk) > 1 or not follows
        assert corpus.document(first[0]) == own and (corpus.document(second[0]) == own) == follows
        length = int(corpus.lengths[chunk].sum())
        if follows:
            assert second[-1] < corpus.ends[chunk[-1]]
            assert len(first) + len(second) == min(ROOM, length)  # all of the chunk, cut to fit
        else:
            others.append(corpus.document(second[0]))
        first_ends.add(int(np.searchsorted(corpus.ends, first[-1], side="right")) - start)
        cases.add((follows, len(chunk) == 1))
    assert cases == {(True, False), (False, False), (False, True)}
    assert {0, 1, 2, 3} <= first_ends  # the first segment may end with any sentence of the chunk
    # Documents are drawn uniformly, however many places they have.
    sizes = np.bincount(corpus.documents)
    assert sizes[others].mean() == pytest.approx(sizes.mean(), abs=2.5) and sizes.std() > 8


# Only content and order distinguish the classes


def accuracy_by_lengths(pairs: list[SegmentPair]) -> float:
    """Returns the balanced accuracy of a classifier given only the lengths of both segments."""
    return accuracy(np.array([(len(pair.first), len(pair.second)) for pair in pairs]), pairs)


def accuracy(features: np.ndarray, pairs: list[SegmentPair]) -> float:
    """Returns the balanced accuracy of a classifier given only these ``features`` of each pair."""
    classes = np.array([pair.follows for pair in pairs])
    half = len(pairs) // 2
    classifier = LogisticRegression(class_weight="balanced", max_iter=500)
    model = make_pipeline(PolynomialFeatures(3), StandardScaler(), classifier).fit(features[:half], classes[:half])
    return float(balanced_accuracy_score(classes[half:], model.predict(features[half:])))


def test_lengths_reveal_the_class_of_published_pairs_only() -> None:
    corpus = Numbered(documents=400, sentences=8, longest=30)
    accuracies = {name: accuracy_by_lengths([pair for _, pair in corpus.pairs(name, 6000)]) for name in DRAWS}
    assert accuracies["nsp"] == pytest.approx(0.5, abs=0.03)
    assert accuracies["sop"] == pytest.approx(0.5, abs=0.03)
    assert accuracies["published"] > 0.54


@pytest.mark.parametrize(("sentences", "name"), [(8, "nsp"), (40, "nsp"), (8, "sop"), (40, "sop")])
def test_boundaries_do_not_reveal_the_class(sentences: int, name: str) -> None:
    corpus = Numbered(documents=400, sentences=sentences, longest=30)
    pairs = [pair for _, pair in corpus.pairs(name, 6000)]
    marks = np.array([boundary_marks(corpus, pair) for pair in pairs])
    if name == "sop":  # a segment that begins a document precedes the other: a legitimate hint of their order
        marks = marks[:, :4]
    assert accuracy(marks, pairs) == pytest.approx(0.5, abs=0.03)


def test_lengths_of_sentences_do_not_reveal_the_order() -> None:
    """If sentences were left out only at the end, the last one would be a short one."""
    corpus = Numbered(documents=600, sentences=40, longest=24)
    features, classes = [], []
    for _, (first, second, follows) in corpus.pairs("sop", 12_000):
        places = np.searchsorted(corpus.ends, [first[0], first[-1], second[0], second[-1]], side="right")
        features.append([len(first), len(second), *corpus.lengths[places]])
        classes.append(follows)
    model = HistGradientBoostingClassifier(random_state=0, max_iter=50).fit(features[:8000], classes[:8000])
    chances = model.predict_proba(features[8000:])[:, 1]
    assert roc_auc_score(classes[8000:], chances) == pytest.approx(0.5, abs=0.03)


def test_sentence_ends_in_the_second_segment_do_not_reveal_the_class() -> None:
    """If first segments ended where a sentence does not fit, true second ones would begin with longer ones."""
    for longest in (30, 60):
        corpus = Numbered(documents=400, sentences=40, longest=longest)
        pairs = [pair for _, pair in corpus.pairs("nsp", 10_000)]
        starts = np.array([int(pair.second[0]) for pair in pairs])
        stops = corpus.ends[np.searchsorted(corpus.ends, starts, side="right")] - starts
        features = np.array([(len(p.first), len(p.second), stop) for p, stop in zip(pairs, stops, strict=True)])
        assert accuracy(features, pairs) == pytest.approx(0.5, abs=0.025)


# Places at which a pair can be sampled

LINES = [f"sentence {i} has {'many ' * (i % 7)}words ." for i in range(90)]


def store(cache: Path, documents: list[list[str]], **options: float) -> TokenTable:
    tokenizer = train_words(LINES, vocab_size=500, min_count=1, max_length=64)
    source = Listed([Document("\n\n".join(lines)) for lines in documents], **{"dev_fraction": 0.2, **options})
    return prepare(source, tokenizer, cache=cache, sentences=Sentences(max_words=9))


DOCUMENTS = [LINES[3 * i : 3 * i + 3] for i in range(30)]


def test_selection_equals_a_naive_loop(tmp_path: Path) -> None:
    # One document is repeated, and some sentences are longer than max_words.
    sentences = store(tmp_path, [*DOCUMENTS, DOCUMENTS[4]])
    assert len(sentences) == 93
    for behind, tokens, before in ((0, 0, False), (1, 0, False), (1, 20, False), (9, 12, True), (0, 5, True)):
        options: dict[str, Any] = {"behind": behind, "tokens": tokens, "before": before}
        found = [segments.select(sentences, part, **options) for part in ("train", "dev")]
        expected = set()
        for i in range(93):
            left = sum(len(sentences[j]) for j in range(i + 1, i // 3 * 3 + 3))
            if left >= behind and left + len(sentences[i]) >= tokens and (i % 3 or not before):
                expected.add(i)
        assert {*found[0].indices.tolist(), *found[1].indices.tolist()} == expected
        assert not {i // 3 for i in found[0].indices} & {i // 3 for i in found[1].indices}
        assert sum(len(part.indices) + sum(part.left_out.values()) for part in found) == 93
        assert all({*part.left_out} <= {"without continuation"} for part in found)


def test_refusals(tmp_path: Path) -> None:
    sentences = store(tmp_path, DOCUMENTS)
    with pytest.raises(UserError) as error:
        segments.select(sentences, "train", behind=1, tokens=900)
    assert error.value.key == "corpus"
    alone = store(tmp_path, [[line] for line in LINES])
    with pytest.raises(UserError):
        segments.select(alone, "dev", behind=1)
    two_documents = store(tmp_path, [LINES[:40], LINES[40:43]])
    for part in PART_NAMES:
        with pytest.raises(UserError):
            segments.select(two_documents, part, behind=1, others=True)
