"""Segment pairs: positives are adjacent, negatives are not, and lengths do not reveal the class; refusals."""

from __future__ import annotations

from collections import Counter
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
from data.views import segments
from data.views.segments import Place, RunningText, SegmentPair
from tests.data.samples import DOCUMENTS, sentence_table

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

    def text(self, name: str, room: int = ROOM) -> tuple[RunningText, np.ndarray]:
        """Returns the corpus and the numbers of the sentences at which a pair can be sampled."""
        last = np.append(np.flatnonzero(np.diff(self.documents)), len(self.documents) - 1)
        left = self.ends[last][self.documents] - self.ends
        first = np.append(0, last[:-1] + 1)[self.documents]
        usable = {
            "nsp": (np.arange(len(first)) > first) & (left + self.lengths >= room - 1),
            "sop": left > 0,
            "published": left >= 0,
        }
        places = np.flatnonzero(usable[name])
        parts = places[~self.dev[places]], places[self.dev[places]]
        return RunningText(self.sentences, self.documents, *parts), places

    def pairs(self, name: str, count: int, short: float = 0.1) -> list[tuple[int, SegmentPair]]:
        """Returns random places, and a pair sampled at each."""
        text, places = self.text(name)
        sample = np.random.default_rng(1).choice(places, count).tolist()
        return [(i, DRAWS[name](text[i], ROOM, generator(2, step, i), short)) for step, i in enumerate(sample)]


def is_run(tokens: np.ndarray) -> bool:
    return bool((np.diff(tokens) == 1).all())


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
            documents = corpus.document(first[0]), corpus.document(second[0])
            assert documents == (corpus.document(first[-1]), corpus.document(second[-1]))
            assert documents[0] == corpus.documents[start]
            assert corpus.document(second[0] - 1) == documents[1]  # the second never begins a document
            if follows:
                assert second[0] == first[-1] + 1 and documents[0] == documents[1]
            else:
                assert (
                    documents[0] != documents[1] and bool(corpus.dev[corpus.documents == documents[1]][0]) == part
                )


def test_a_pair_fills_its_room_and_is_a_short_one_in_a_tenth_of_cases() -> None:
    lengths = np.array([len(first) + len(second) for _, (first, second, _) in Numbered().pairs("nsp", 3000)])
    assert (lengths == ROOM).mean() == pytest.approx(0.9 + 0.1 / 59, abs=0.02)
    short = lengths[lengths < ROOM]
    assert short.min() < 8 and short.mean() == pytest.approx((2 + 59) / 2, abs=3)


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
    samples = [segments.ordered_segments(text[0], 13, generator(seed), 0.0) for seed in range(60)]
    in_order = {((3,), (4, 5)), ((3, 4), (5,)), ((3,), (4,))}
    assert {(tuple(np.unique(first)), tuple(np.unique(second))) for first, second, _ in samples} == {
        *in_order,
        *(segment_pair[::-1] for segment_pair in in_order),
    }
    long = [segments.ordered_segments(text[1], 500, generator(seed), 0.0) for seed in range(20)]
    assert {len(first) + len(second) for first, second, _ in long} == {4 + 5 + 2, 3 + 4 + 5}


@given(st.integers(1, 30), st.integers(1, 30), st.integers(2, 40))
def test_the_longer_segment_loses_tokens_until_both_fit(first: int, second: int, room: int) -> None:
    left = [first, second]
    while sum(left) > room:  # as the published program does
        left[0 if left[0] > left[1] else 1] -= 1
    cut = segments.truncate(np.arange(first), np.arange(second), room, generator(first, second))
    assert [len(part) for part in cut] == left and all(is_run(part) for part in cut)


def test_negatives_are_sampled_uniformly_over_places_or_documents() -> None:
    documents = np.repeat([0, 1, 2, 3], [1, 6, 2, 3])
    text = RunningText([np.array([i]) for i in range(12)], documents, np.arange(9), np.arange(9, 12))
    for by_document, shares in ((False, {0: 1 / 3, 7: 1 / 3, 8: 1 / 3}), (True, {0: 1 / 2, 7: 1 / 4, 8: 1 / 4})):
        places = [text.random_other_document(3, generator(i), by_document=by_document) for i in range(3000)]
        assert {i: places.count(i) / 3000 for i in set(places)} == pytest.approx(shares, abs=0.04)


def test_published_pairs_equal_those_of_the_published_program() -> None:
    """Compares places, classes and ends of segments."""
    corpus = Numbered(longest=25)
    cases, first_ends = set(), set()
    for start, (first, second, follows) in corpus.pairs("published", 400, short=0.0):
        document = corpus.documents[start]
        chunk = [i for i in range(start, len(corpus.documents)) if corpus.documents[i] == document]
        chunk = chunk[: np.searchsorted(np.cumsum(corpus.lengths[chunk]), ROOM) + 1]
        assert len(first) + len(second) <= ROOM
        assert len(chunk) > 1 or not follows
        assert corpus.document(first[0]) == document and (corpus.document(second[0]) == document) == follows
        length = int(corpus.lengths[chunk].sum())
        if follows:
            assert second[-1] < corpus.ends[chunk[-1]]
            assert len(first) + len(second) == min(ROOM, length)  # all of the chunk, cut to fit
        first_ends.add(int(np.searchsorted(corpus.ends, first[-1], side="right")) - start)
        cases.add((follows, len(chunk) == 1))
    assert cases == {(True, False), (False, False), (False, True)}
    assert {0, 1, 2, 3} <= first_ends  # the first segment may end with any sentence of the chunk


# Only content and order distinguish the classes


def features(corpus: Numbered, pairs: list[SegmentPair]) -> dict[str, np.ndarray]:
    """Returns what a classifier could know of each pair besides content and order."""
    borders = np.array([(first[0], first[-1], second[0], second[-1]) for first, second, _ in pairs])
    lengths = np.array([(len(pair.first), len(pair.second)) for pair in pairs])
    sentences = np.searchsorted(corpus.ends, borders, side="right")
    return {
        "lengths": lengths,
        "boundaries": np.isin(borders + np.array([0, 1, 0, 1]), [0, *corpus.ends]),
        "lengths of sentences": np.hstack([lengths, corpus.lengths[sentences]]),
        "first end of a sentence": np.column_stack([lengths, corpus.ends[sentences[:, 2]] - borders[:, 2]]),
    }


def accuracy(values: np.ndarray, pairs: list[SegmentPair]) -> float:
    """Returns the balanced accuracy of a classifier given only these ``values`` of each pair."""
    classes = np.array([pair.follows for pair in pairs])
    half = len(pairs) // 2
    classifier = LogisticRegression(class_weight="balanced", max_iter=500)
    model = make_pipeline(PolynomialFeatures(3), StandardScaler(), classifier).fit(values[:half], classes[:half])
    return float(balanced_accuracy_score(classes[half:], model.predict(values[half:])))


@pytest.mark.parametrize("name", ["nsp", "sop"])
@pytest.mark.parametrize(("sentences", "longest"), [(8, 30), (40, 30), (40, 60)])
def test_lengths_and_boundaries_do_not_reveal_the_class(name: str, sentences: int, longest: int) -> None:
    """If first segments ended where a sentence does not fit, true second ones would begin with longer ones."""
    corpus = Numbered(documents=400, sentences=sentences, longest=longest)
    pairs = [pair for _, pair in corpus.pairs(name, 8000)]
    known = features(corpus, pairs)
    for hint in ("lengths", "boundaries", *["first end of a sentence"] * (name == "nsp")):
        assert accuracy(known[hint], pairs) == pytest.approx(0.5, abs=0.03), hint


def test_lengths_of_sentences_do_not_reveal_the_order() -> None:
    """If sentences were left out only at the end, the last one would be a short one."""
    corpus = Numbered(documents=600, sentences=40, longest=24)
    pairs = [pair for _, pair in corpus.pairs("sop", 12_000)]
    values, classes = features(corpus, pairs)["lengths of sentences"], [pair.follows for pair in pairs]
    model = HistGradientBoostingClassifier(random_state=0, max_iter=50).fit(values[:8000], classes[:8000])
    chances = model.predict_proba(values[8000:])[:, 1]
    assert roc_auc_score(classes[8000:], chances) == pytest.approx(0.5, abs=0.03)


# Places at which a pair can be sampled


def test_selection_equals_a_naive_loop(tmp_path: Path) -> None:
    # One document is repeated, and some sentences are longer than max_words.
    sentences = sentence_table(tmp_path, [*DOCUMENTS, DOCUMENTS[4]], Sentences(max_words=9))
    for after, tokens, before in ((0, 0, False), (1, 0, False), (1, 20, False), (9, 12, True), (0, 5, True)):
        options: dict[str, Any] = {"min_tokens_after": after, "tokens": tokens, "before": before}
        train, dev = (segments.select(sentences, part, **options) for part in ("train", "dev"))
        places = set()
        for i in range(93):
            left = sum(len(sentences[j]) for j in range(i + 1, i // 3 * 3 + 3))
            if left >= after and left + len(sentences[i]) >= tokens and (i % 3 or not before):
                places.add(i)
        assert {*train.indices.tolist(), *dev.indices.tolist()} == places
        left_out = Counter(train.left_out) + Counter(dev.left_out)
        assert left_out == +Counter({"without continuation": 93 - len(places)})
    with pytest.raises(UserError) as error:
        segments.select(sentences, "train", min_tokens_after=1, tokens=900)
    assert error.value.key == "corpus"
