"""Splits documents into sentences by Punkt, which learns abbreviations without labels (Kiss and Strunk 2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from data.errors import UserError
from data.ranges import Count

if TYPE_CHECKING:  # nltk takes long to import, and most importers of this module split nothing
    from nltk.tokenize.punkt import PunktSentenceTokenizer

TRAINING_CHARACTERS = 2_000_000  # Punkt finds the frequent abbreviations in much less
Splitter = Callable[[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Rules for which sentences of a corpus an objective gets; the run's key ``sentences``.

    Attributes:
        split: whether documents are split; False: each one is a sentence already.
        min_words, max_words: white-space words of a sentence, both ends included.
        unique: whether a repeated sentence is taken once, and a held-out one that is also in the training part not
            at all.

    Raises:
        UserError: if ``max_words`` is below ``min_words``.
    """

    split: bool = True
    min_words: Count = 3
    max_words: int = 64
    unique: bool = True

    def __post_init__(self) -> None:
        if self.max_words < self.min_words:
            raise UserError(f"must be at least min_words={self.min_words}", key="sentences.max_words")


def splitter_kind() -> Literal["nltk-english", "trained"]:
    """Returns which Punkt ``splitter`` uses: NLTK's English one where it is installed; nothing is downloaded."""
    return "trained" if _installed() is None else "nltk-english"


def splitter(texts: Callable[[], Iterable[str]]) -> Splitter:
    """Returns NLTK's English Punkt where it is installed, else one trained on the beginning of ``texts()``.

    The splitter returns the sentences of a text in order; only the white space between them is lost.
    """
    return _without_clock()((_installed() or _trained(texts())).tokenize)


def split_sentences(texts: Iterable[str], *, limit: int | None = None) -> list[str]:
    """Returns the first ``limit`` sentences of ``texts`` (None: all), in order, by ``splitter``."""
    texts = list(texts)
    split = splitter(lambda: texts)
    return list(islice((sentence for text in texts for sentence in split(text)), limit))


@contextmanager
def _without_clock() -> Iterator[None]:
    """Lifts NLTK's time limit on a regular expression, which includes the time between its matches.

    Under it a long book in one paragraph would be split on a fast machine and refused on a slow one. Punkt's
    expressions take time in proportion to the text, whose length the sources bound.
    """
    from nltk import redos

    before, redos.DEFAULT_TIMEOUT = redos.DEFAULT_TIMEOUT, None
    try:
        yield
    finally:
        redos.DEFAULT_TIMEOUT = before


@_without_clock()
def _installed() -> PunktSentenceTokenizer | None:
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        return PunktTokenizer("english")
    except LookupError:
        return None


@_without_clock()
def _trained(texts: Iterable[str]) -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    trainer = PunktTrainer()
    left = TRAINING_CHARACTERS
    for text in texts:
        trainer.train(text[:left], finalize=False)
        left -= len(text)
        if left <= 0:
            break
    trainer.finalize_training()
    return PunktSentenceTokenizer(trainer.get_params())
