"""Splits documents into sentences by Punkt, which learns abbreviations without labels (Kiss and Strunk 2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from data.ranges import Count

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
    """

    split: bool = True
    min_words: Count = 3
    max_words: Count = 64
    unique: bool = True


def installed_splitter() -> Splitter | None:
    """Returns NLTK's English Punkt, or None where its data is not installed; nothing is downloaded."""
    from nltk import redos  # slow to import, and most importers of this module split nothing
    from nltk.tokenize.punkt import PunktTokenizer

    # The limit includes the time between two matches: a slow machine would refuse a long book in one paragraph.
    redos.DEFAULT_TIMEOUT = None
    try:
        return PunktTokenizer("english").tokenize
    except LookupError:
        return None


def splitter(texts: Iterable[str]) -> Splitter:
    """Returns NLTK's English Punkt where it is installed, else one trained on the beginning of ``texts``.

    The splitter returns the sentences of a text in order; only the white space between them is lost.
    """
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    if installed := installed_splitter():
        return installed
    trainer, left = PunktTrainer(), TRAINING_CHARACTERS
    for text in texts:
        trainer.train(text[:left], finalize=False)
        left -= len(text)
        if left <= 0:
            break
    trainer.finalize_training()
    return PunktSentenceTokenizer(trainer.get_params()).tokenize


def split_sentences(texts: Iterable[str]) -> list[str]:
    """Returns the sentences of ``texts``, in order, by ``splitter``."""
    texts = list(texts)
    split = splitter(texts)
    return [sentence for text in texts for sentence in split(text)]
