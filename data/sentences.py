"""Documents to sentences by Punkt, which learns a text's abbreviations without labels (Kiss and Strunk 2006)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTokenizer, PunktTrainer

TRAINING_CHARACTERS = 2_000_000  # Punkt finds the frequent abbreviations in much less


def split_sentences(texts: Iterable[str], *, limit: int | None = None) -> list[str]:
    """Sentences of ``texts`` in their order, the first ``limit`` of them.

    NLTK's English model is used where it is installed; else one is trained on the beginning of the texts
    themselves. Nothing is downloaded.
    """
    texts = list(texts)
    splitter = _splitter(texts)
    sentences = (sentence for text in texts for sentence in splitter.tokenize(text))
    return list(islice(sentences, limit))


def _splitter(texts: list[str]) -> PunktSentenceTokenizer:
    try:
        return PunktTokenizer("english")
    except LookupError:
        pass
    trainer = PunktTrainer()
    left = TRAINING_CHARACTERS
    for text in texts:
        trainer.train(text[:left], finalize=False)
        left -= len(text)
        if left <= 0:
            break
    trainer.finalize_training()
    return PunktSentenceTokenizer(trainer.get_params())
