"""Pairs of segments of running text, for NSP and SOP.

    NSP   A B, where B follows A in its document or is from another one, each with probability 1/2
    SOP   A B, where B follows A in its document, and which are swapped with probability 1/2

Devlin et al. (2019), section 3.1 and appendix A.2; Lan et al. (2020), section 3.1. Both segments are grown
sentence by sentence to a number of tokens, at times a small one. Only content and order should distinguish the
classes:

- NSP: in the published examples (``published_segments``) lengths do, too. True continuations end where the
  document does, others go on until they are long enough; and a text of one sentence never has a true
  one. Ours (``next_segments``) begin in the middle, at a place where B would begin: A is the text before it,
  grown backwards, so that the end of A is no hint of the sentence behind it, and either B, from here or from
  another such place, is cut to what is left. Places are taken only where the document goes on for as long as
  could be asked for. What remains is a corpus' own: of few documents of unlike sizes, a large one's text is the
  true B more often than another's, as it is never another's of its own.
- SOP: a sentence that does not fit any more is left out. Were it cut, as published, the last segment would be the
  longer one, and the one without a full stop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from data.errors import ShortTextError
from data.loader import Units
from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore

ANY_LENGTH = int(np.iinfo(np.uint32).max)  # words


class Pair(NamedTuple):
    """Content token ids of shapes (n,) and (m,), and whether the second follows the first in a document."""

    first: np.ndarray
    second: np.ndarray
    follows: bool


class RunningText:
    """The sentences of documents one after another; its units are ``Place`` s in it.

    Args:
        sentences: token ids by number.
        documents: number of each sentence's document, of shape (n,), ascending.
        parts: numbers of the sentences of one part of the corpus (the training part, say) that may be a ``Place``,
            ascending; no document is in two parts.
    """

    def __init__(self, sentences: Units, documents: np.ndarray, *parts: np.ndarray) -> None:
        self.sentences = sentences
        self.documents = documents
        # Of each part: the places, and where in them another document begins, and where they end.
        self._parts = [
            (part, np.append(np.unique(documents[part], return_index=True)[1], len(part))) for part in parts
        ]

    def __getitem__(self, i: int) -> Place:
        return Place(self, i)

    def run(self, start: int, tokens: int, *, least: int = 1) -> list[np.ndarray]:
        """Returns sentences of a document from ``start`` on, until they have ``tokens`` together.

        Args:
            start: number of a sentence.
            tokens: wanted; fewer where the document ends before.
            least: of so many sentences, even if fewer have the tokens.
        """
        return self._grown(range(start, len(self.documents)), self.documents[start], tokens, least)

    def before(self, start: int, tokens: int) -> list[np.ndarray]:
        """Returns the sentences before ``start`` that have ``tokens`` together, in their order."""
        return self._grown(range(start - 1, -1, -1), self.documents[start], tokens, 1)[::-1]

    def _grown(self, numbers: range, document: int, tokens: int, least: int) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        length = 0
        for i in numbers:
            if self.documents[i] != document or (length >= tokens and len(found) >= least):
                break
            sentence = self.sentences[i]
            if len(sentence):  # one of only unknown words may have no token
                found.append(sentence)
                length += len(sentence)
        return found

    def elsewhere(self, start: int, rng: np.random.Generator, *, by_document: bool = False) -> int:
        """Returns a random place of the part of ``start`` in another document, which must be there.

        Args:
            start: one of the places of a part.
            rng: draws it.
            by_document: draw a document and then a place in it, instead of any place.
        """
        places, borders = next(part for part in self._parts if _has(part[0], start))
        own = int(np.searchsorted(borders, np.searchsorted(places, start), side="right")) - 1
        first, end = borders[own : own + 2]
        if by_document:
            other = int(rng.integers(len(borders) - 2))
            other += other >= own
            return int(places[rng.integers(borders[other], borders[other + 1])])
        drawn = int(rng.integers(len(places) - (end - first)))
        return int(places[drawn if drawn < first else drawn + end - first])


class Place(NamedTuple):
    """A sentence in its text: a pair begins with it, or (``next_segments``) the second half of a true one."""

    text: RunningText
    start: int


def next_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> Pair:
    """Returns a pair for NSP whose lengths and ends do not depend on its class.

    A is of the sentences before the place, until they have a number of tokens that leaves B a quarter of the pair
    at least; beyond that it loses tokens at its beginning, so that they touch each other. B begins at the place,
    or at another document's, and has exactly the tokens that are left, wherever its last sentence then ends. So
    it never begins a document.

    Args:
        place: with text of its document before it, and ``room`` - 1 tokens from it on, as each one of its part.
        room: tokens of the pair, at least 2.
        rng: source of randomness.
        short: probability of a pair of fewer tokens, of any number from 2 on.
    """
    text, start = place
    tokens = _target(room, rng, short)
    most = tokens - max(1, tokens // 4)
    first = np.concatenate(text.before(start, int(rng.integers(1, most + 1))))[-most:]
    wanted = tokens - len(first)
    follows = bool(rng.random() < 0.5)
    begin = start if follows else text.elsewhere(start, rng)
    return Pair(first, np.concatenate(text.run(begin, wanted))[:wanted], follows)


def published_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> Pair:
    """Returns a pair for NSP as the published program (``create_instances_from_document``) makes it, with leaks.

    There a pair begins where the one before it ends; here any sentence may begin one.

    Args:
        place, room, rng, short: as ``next_segments`` has them, but of any document.
    """
    text, start = place
    tokens = _target(room, rng, short)
    run = text.run(start, tokens)
    count = int(rng.integers(1, len(run))) if len(run) > 1 else 1
    first = np.concatenate(run[:count])
    follows = len(run) > 1 and bool(rng.random() < 0.5)
    if follows:
        second = np.concatenate(run[count:])
    else:
        other = text.elsewhere(start, rng, by_document=True)
        second = np.concatenate(text.run(other, tokens - len(first)))
    return Pair(*truncated(first, second, room, rng), follows)


def ordered_segments(place: Place, room: int, rng: np.random.Generator, short: float) -> Pair:
    """Returns a pair for SOP: as many whole sentences as fit, at least two, divided between any two of them.

    Where two do not fit, the longer segment loses tokens at either end (``truncated``).

    Args:
        place: with another sentence of its document behind it.
        room, rng, short: as ``next_segments`` has them.
    """
    text, start = place
    tokens = _target(room, rng, short)
    run = text.run(start, tokens + 1, least=2)
    fit = max(2, int(np.searchsorted(np.cumsum([len(sentence) for sentence in run]), tokens, side="right")))
    count = int(rng.integers(1, fit))
    segments = np.concatenate(run[:count]), np.concatenate(run[count:fit])
    follows = bool(rng.random() < 0.5)
    first, second = segments if follows else segments[::-1]
    return Pair(*truncated(first, second, room, rng), follows)


def fitted(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns two lengths, the larger of which (of equal ones the second) is lowered until both fit."""
    second = min(second, max(room // 2, room - first))
    return min(first, room - second), second


def truncated(
    first: np.ndarray, second: np.ndarray, room: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts two segments (of shapes (n,) and (m,)) to ``room`` tokens, as the published program does.

    The longer one loses a token until both fit, each time from the front or from the back with probability 1/2.
    """

    def cut(segment: np.ndarray, length: int) -> np.ndarray:
        front = int(rng.binomial(len(segment) - length, 0.5))
        return segment[front : front + length]

    kept = fitted(len(first), len(second), room)
    return cut(first, kept[0]), cut(second, kept[1])


def select(
    store: TokenStore,
    part: Part,
    *,
    before: bool = False,
    behind: int = 0,
    tokens: int = 0,
    others: bool = False,
) -> Selection:
    """Selects the sentences of ``part`` that can be a pair's ``Place``.

    The rules on words and on repeated sentences (``Sentences``) do not count here, as a pair is of running text.

    Args:
        store: of sentences.
        part: "train" or "dev".
        before: whether the document must have text before the sentence.
        behind: tokens that the document must have behind the sentence.
        tokens: that the document must have from the sentence on.
        others: whether places must be of two documents at least.

    Raises:
        ShortTextError: if there are none.
    """
    assert store.sentences is not None, "needs.unit says so"
    rules = replace(store.sentences, min_words=1, max_words=ANY_LENGTH, unique=False)
    every = TokenStore(store.folder, fraction=store.fraction, dev_fraction=store.dev_fraction, sentences=rules)
    found = every.select(part)
    documents, ends = store.documents, np.append(0, np.cumsum(store.lengths))
    left = ends[np.searchsorted(documents, documents, side="right")] - ends[1:]  # behind each sentence
    usable = (left >= behind) & (left + store.lengths >= tokens)
    if before:
        usable &= ends[:-1] > ends[np.searchsorted(documents, documents)]
    selected = found.narrowed(usable, "without continuation")
    if not len(selected.indices):
        asked = "another one behind it in its document"
        if tokens:
            asked = f"a document of {tokens:,} tokens from it on" + " and text before it" * before
        longest = int((left + store.lengths)[found.indices].max())
        raise ShortTextError(f"None of the {len(found.indices):,} {part} sentences has {asked}.", longest=longest)
    if others and documents[selected.indices[0]] == documents[selected.indices[-1]]:
        longest = int((left + store.lengths)[selected.indices].max())
        raise ShortTextError(
            f"All {part} sentences that a pair can be made at are of one document, and half of the pairs need "
            "another one.",
            longest=longest,
        )
    return selected


def _target(room: int, rng: np.random.Generator, short: float) -> int:
    """Returns the tokens of a pair: ``room``, or with probability ``short`` any number from 2 on."""
    return int(rng.integers(2, room + 1)) if rng.random() < short else room


def _has(numbers: np.ndarray, number: int) -> bool:
    """Returns whether ``number`` is in the ascending ``numbers``."""
    position = int(np.searchsorted(numbers, number))
    return position < len(numbers) and numbers[position] == number
