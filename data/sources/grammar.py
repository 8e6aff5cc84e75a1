"""Translations, parses and inferences of a small synchronous grammar of our own: always there, and made up.

A random meaning (``data.grammar.meaning``) is said in English, French and German; the English tree comes with it,
and a logic decides which premises entail a hypothesis (``data.grammar.entailment``). The grammar stands in where
there is no corpus; it is never evidence of how well anything understands a language.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from data.grammar import english, french, german
from data.grammar.entailment import hypothesis, premises
from data.grammar.meaning import Draw, Sentence, sentence
from data.pairs import Pair, PairSource
from data.randomness import SYNTHETIC, generator
from data.ranges import Below1, Count
from data.sources.inference import CLASSES
from data.sources.trees import VERSION, linearised, words

AnySeed = Annotated[int, Field(ge=0)]

TRANSLATION, PARSING, INFERENCE = range(3)  # no two sources share their sentences
FOLDER = Path(english.__file__).parent


class Grammar(PairSource):
    """Base of the sources that the grammar makes.

    Args:
        pairs: their number.
        seed: the same seed gives the same pairs, and smaller numbers give the first of them.
        dev_fraction: see PairSource.

    Raises:
        ValueError: if a value is out of its range.
    """

    name = "grammar"
    synthetic = True
    purpose: int

    def __init__(self, *, pairs: Count = 20_000, seed: AnySeed = 0, dev_fraction: Below1 = 0.05) -> None:
        super().__init__(dev_fraction=dev_fraction)
        self.number = pairs
        self.seed = seed

    @abstractmethod
    def made(self, draw: Draw) -> list[Pair]:
        """Some random pairs that belong together."""

    def pairs(self) -> Iterator[Pair]:
        yield from self._all

    @cached_property
    def _all(self) -> list[Pair]:
        """Made once: words, targets and the store each go through them."""
        found: list[Pair] = []
        for i in count():
            if len(found) >= self.number:
                break
            found += self.made(Draw(generator(SYNTHETIC, self.purpose, self.seed, i)))
        return found[: self.number]

    def identity(self) -> Iterator[str | bytes]:
        yield f"{type(self).__name__} {self.number} {self.seed} {VERSION}"
        yield from (file.read_bytes() for file in (*sorted(FOLDER.glob("*.py")), Path(__file__)))

    def describe(self) -> dict[str, Any]:
        return {
            "name": type(self).__name__,
            "where": f"{self.number:,} pairs that a small grammar of this software made up (seed {self.seed}); "
            "no person wrote them",
            "licence": "that of this software",
            "synthetic": True,
        }

    @property
    def total(self) -> int:
        return self.number


class GrammarTranslation(Grammar):
    """English sentences and their translations.

    Args:
        language: "fr" or "de".
        pairs, seed, dev_fraction: see Grammar; both languages translate the same sentences.
    """

    purpose = TRANSLATION

    def __init__(
        self,
        *,
        language: Literal["fr", "de"],
        pairs: Count = 20_000,
        seed: AnySeed = 0,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(pairs=pairs, seed=seed, dev_fraction=dev_fraction)
        self.language = language

    def made(self, draw: Draw) -> list[Pair]:
        meant = sentence(draw)
        said = french.words(meant) if self.language == "fr" else german.words(meant)
        return [Pair((in_english(meant),), written([*said, "."]))]

    def identity(self) -> Iterator[str | bytes]:
        yield self.language
        yield from super().identity()


class GrammarParsing(Grammar):
    """English sentences (tokens, parted by blanks) and their trees in one line; see ``data.sources.trees``."""

    purpose = PARSING
    symbols = True

    def made(self, draw: Draw) -> list[Pair]:
        tree = english.tree(sentence(draw))
        return [Pair((" ".join(words(tree)),), linearised(tree))]


class GrammarInference(Grammar):
    """Premises and hypotheses in three classes.

    Each hypothesis comes with one premise of every class, so that nothing about it alone tells the class; the
    three are held out together.
    """

    purpose = INFERENCE
    n_sources = 2
    classes = CLASSES

    def made(self, draw: Draw) -> list[Pair]:
        while True:
            claim = hypothesis(draw)
            found = premises(draw, claim)
            if found is not None:
                break
        said = in_english(Sentence(claim))
        texts = [in_english(Sentence(premise)) for premise in found]
        return [Pair((text, said), label, None, said) for label, text in enumerate(texts)]


def in_english(meant: Sentence) -> str:
    """An English sentence, as one writes it."""
    return written(words(english.tree(meant)))


def written(words: list[str]) -> str:
    """Words and marks as one writes them: a capital first, no blank before a mark or after an apostrophe."""
    text = re.sub(r"(?: ,)+", ",", " ".join(words)).replace(", .", ".").replace(" .", ".").replace("' ", "'")
    return text[0].upper() + text[1:]
