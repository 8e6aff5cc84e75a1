"""Pairs of segments of running text, for NSP and SOP.

    NSP   A B, where B follows A in its document or is from another one, each with probability 1/2
    SOP   A B, where B follows A in its document, and which are swapped with probability 1/2

Devlin et al. (2019), section 3.1 and appendix A.2; Lan et al. (2020), section 3.1. Segments are filled sentence by
sentence up to a number of tokens, which is sometimes small. Only content and order should distinguish the classes:

- NSP: in the published examples (``published_segments``) lengths also do. A true continuation ends where its
  document ends, a random one goes on until it is long enough, and if the text from the place on is one sentence,
  there is never a true one. ``next_segments`` avoids this. A pair is sampled at the place where its true B begins.
  A is the text before the place, filled backwards, so that the end of A gives no hint of the next sentence. B,
  from this place or from one in another document, is cut to the tokens that are left. Only places are used from
  which the document goes on for as long as the longest possible B. One hint remains in a corpus of few documents
  of unequal size: text of a large document is a true B more often than a random one, as a random B is never from
  the document of A.
- SOP: a sentence that does not fit is left out. If it were cut, as published, the last segment would be the longer
  one, and the one without a full stop. As long sentences are left out more often than short ones, this is done at
  either end with probability 1/2: a pair consists of the sentences from the place on, or of those up to the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from data.errors import UserError
from data.sources.base import Part
from data.store import Selection, TokenTable


class SegmentPair(NamedTuple):
    """Content token ids of shapes (n,) and (m,), and whether the second follows the first in a document."""

    first: np.ndarray
    second: np.ndarray
    follows: bool


class RunningText:
    """The sentences of all documents in order; unit ``i`` is the ``Place`` of sentence ``i``.

    Args:
        sentences: token ids of each sentence by number.
        documents: number of each sentence's document, of shape (n,), ascending.
        parts: numbers of the sentences of one part of the corpus (the training part, say) that may be a ``Place``,
            ascending; no document is in two parts.
    """

    def __init__(self, sentences: Any, documents: np.ndarray, *parts: np.ndarray) -> None:
        self.sentences = sentences
        self.documents = documents
        # Of each part: its places, and the positions in them at which a document begins, followed by their number.
        self._parts = [
            (part, np.append(np.unique(documents[part], return_index=True)[1], len(part))) for part in parts
        ]

    def __getitem__(self, i: int) -> Place:
        return Place(self, i)

    def run(self, start: int, tokens: int, *, least: int = 1) -> list[np.ndarray]:
        """Returns the sentences of a document from ``start`` on, until they have ``tokens`` together.

        Args:
            start: number of the first sentence.
            tokens: to return; the sentences have fewer if the document ends before.
            least: number of sentences that are returned even if fewer have the tokens.
        """
        return self._collect(range(start, len(self.documents)), tokens, least)

    def before(self, start: int, tokens: int, *, least: int = 1) -> list[np.ndarray]:
        """Returns the last sentences before ``start`` that have ``tokens`` together, the last one first."""
        return self._collect(range(start - 1, -1, -1), tokens, least)

    def _collect(self, numbers: range, tokens: int, least: int) -> list[np.ndarray]:
        result: list[np.ndarray] = []
        length, document = 0, self.documents[numbers[0]]
        for i in numbers:
            if self.documents[i] != document or (length >= tokens and len(result) >= least):
                break
            sentence = self.sentences[i]
            if len(sentence):  # one of only unknown words may have no token
                result.append(sentence)
                length += len(sentence)
        return result

    def random_other_document(self, start: int, rng: np.random.Generator, *, by_document: bool = False) -> int:
        """Returns a random place in another document of the same part, which must have one.

        Args:
            start: one of the places of a part.
            rng: source of randomness.
            by_document: whether a document is drawn first and then a place in it, instead of any place.
        """
        # The part that has the place: both are ascending.
        places, borders = next(
            part for part in self._parts if part[0][part[0].searchsorted(start, "right") - 1] == start
        )
        document = int(np.searchsorted(borders, np.searchsorted(places, start), side="right")) - 1
        first, end = borders[document : document + 2]
        if by_document:
            other = int(rng.integers(len(borders) - 2))
            other += other >= document
            return int(places[rng.integers(borders[other], borders[other + 1])])
        drawn = int(rng.integers(len(places) - (end - first)))
        return int(places[drawn if drawn < first else drawn + end - first])


class Place(NamedTuple):
    """A sentence at which a pair is sampled, ``start`` of ``text``; the sampler says where in the pair it is."""

    text: RunningText
    start: int


def next_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> SegmentPair:
    """Returns a pair for NSP whose lengths and ends do not depend on its class.

    A consists of the sentences before the place, until they have a random number of tokens, at most about three
    quarters of the pair. If the first of these sentences exceeds that limit, it loses its beginning, so that A
    still ends at the place. B begins at the place, or at one in another document, and has exactly the tokens that
    are left, wherever its last sentence ends. So B never begins a document.

    Args:
        place: like every place of its part, it has text of its document before it, and ``room`` - 1 tokens from it
            on.
        room: largest number of tokens of the pair, at least 2.
        rng: source of randomness.
        short: probability of a shorter pair, whose number of tokens is uniform over 2 .. ``room``.
    """
    text, start = place
    tokens = _target(room, rng, short)
    most = tokens - max(1, tokens // 4)
    first = np.concatenate(text.before(start, int(rng.integers(1, most + 1)))[::-1])[-most:]
    room_left = tokens - len(first)
    follows = bool(rng.random() < 0.5)
    begin = start if follows else text.random_other_document(start, rng)
    return SegmentPair(first, np.concatenate(text.run(begin, room_left))[:room_left], follows)


def published_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> SegmentPair:
    """Returns a pair for NSP as the published program (``create_instances_from_document``) samples it.

    Its lengths reveal the class. There a pair begins where the one before ends; here any sentence may begin one.

    Args:
        place, room, rng, short: as in ``next_segments``, but the place may be any.
    """
    text, start = place
    tokens = _target(room, rng, short)
    run = text.run(start, tokens)
    count = int(rng.integers(1, len(run))) if len(run) > 1 else 1
    first = np.concatenate(run[:count])
    follows = len(run) > 1 and bool(rng.random() < 0.5)
    if not follows:
        run = run[:count] + text.run(text.random_other_document(start, rng, by_document=True), tokens - len(first))
    return SegmentPair(*truncate(first, np.concatenate(run[count:]), room, rng), follows)


def ordered_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> SegmentPair:
    """Returns a pair for SOP: as many whole sentences as fit, at least two, divided between any two of them.

    They begin with the place, or end with the sentence after it, each with probability 1/2 (if both can be).

    Where two do not fit, the longer segment loses tokens at either end (``truncate``).

    Args:
        place: with another sentence of its document after it.
        room, rng, short: as in ``next_segments``.
    """
    text, start = place
    tokens = _target(room, rng, short)
    run = text.run(start, tokens + 1, least=2)
    backwards = rng.random() < 0.5 and len(back := text.before(start + 2, tokens + 1, least=2)) > 1
    run = back if backwards else run
    fit = max(2, int(np.searchsorted(np.cumsum([len(sentence) for sentence in run]), tokens, side="right")))
    run = run[:fit][::-1] if backwards else run[:fit]
    count = int(rng.integers(1, fit))
    segments = np.concatenate(run[:count]), np.concatenate(run[count:])
    follows = bool(rng.random() < 0.5)
    first, second = segments if follows else segments[::-1]
    return SegmentPair(*truncate(first, second, room, rng), follows)


def truncate(
    first: np.ndarray, second: np.ndarray, room: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts two segments (of shapes (n,) and (m,)) to ``room`` tokens, as the published program does.

    The longer one (if equal, the second) loses a token until both fit, each time from the front or from the back
    with probability 1/2.
    """

    def cut(segment: np.ndarray, length: int) -> np.ndarray:
        front = int(rng.binomial(len(segment) - length, 0.5))
        return segment[front : front + length]

    left = min(len(second), max(room // 2, room - len(first)))
    return cut(first, min(len(first), room - left)), cut(second, left)


def select(
    store: TokenTable,
    part: Part,
    *,
    before: bool = False,
    min_tokens_after: int = 0,
    tokens: int = 0,
    two_documents: bool = False,
) -> Selection:
    """Selects the sentences of ``part`` that can be a pair's ``Place``.

    The rules on words and on repeated sentences (``Sentences``) do not apply, as a pair is of running text.

    Args:
        store: of sentences.
        part: "train" or "dev".
        before: whether the document must have text before the sentence.
        min_tokens_after: tokens that the document must have after the sentence.
        tokens: that the document must have from the sentence on.
        two_documents: whether places must be of two documents at least.

    Raises:
        UserError: if there are none.
    """
    assert store.sentences is not None  # Requirements.unit is sentence
    rules = replace(store.sentences, min_words=1, max_words=2**31, unique=False)
    result = store.select(part, rules=rules)
    documents, lengths = store.documents, store.lengths[:, 0]
    ends = np.append(0, np.cumsum(lengths))
    left = ends[np.searchsorted(documents, documents, side="right")] - ends[1:]  # after each sentence
    usable = (left >= min_tokens_after) & (left + lengths >= tokens)
    if before:
        usable &= ends[:-1] > ends[np.searchsorted(documents, documents)]
    needs = f"{tokens or min_tokens_after:,} tokens up to the end of its document"
    needs += ", and text before it" * before
    longest = (left + lengths)[result.indices].max()
    selected = result.narrow(usable, "without continuation", f"{needs} (the longest has {longest:,})")
    if two_documents and documents[selected.indices[0]] == documents[selected.indices[-1]]:
        raise UserError(f"all places of the {part} part are of one document", key="corpus")
    return selected


def _target(room: int, rng: np.random.Generator, short: float) -> int:
    """Returns the tokens of a pair: ``room``, or with probability ``short`` any number of 2 .. ``room``."""
    return int(rng.integers(2, room + 1)) if rng.random() < short else room
