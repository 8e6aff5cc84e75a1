"""Small corpora, a tokenizer and an example sampler for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from data.batch import Batch, Tokens
from data.randomness import generator
from data.sentences import Sentences
from data.sources.base import Example, Part, Source
from data.store import TokenTable, prepare
from data.token_format import TokenFormat
from data.tokenizer import train_bpe, train_words

SENTENCE = "the model learns sentence vectors from spans of long documents and their neighbours in text"
FISH = ["one fish two fish", "red fish blue fish", "this one has a little star"] * 20
WORDS = SENTENCE.split()
LINES = [f"sentence {i} has {'many ' * (i % 7)}words ." for i in range(90)]  # of 5 to 11 words
DOCUMENTS = [LINES[3 * i : 3 * i + 3] for i in range(30)]
FORMAT = TokenFormat((0,), (2,), 1, 4, 320, 64, frozenset({0, 1, 2, 3, 4}))


def Document(text: str, group: str | None = None, part: Part | None = None) -> Example:
    """Returns an example of one text."""
    return Example((text,), group=group, part=part)


def document(i: int, words: int = 40) -> str:
    return f"Document {i}: " + " ".join(WORDS[j] for j in generator(i).integers(len(WORDS), size=words))


class Listed(Source):
    """Source whose examples are given as a list."""

    name = "listed"

    def __init__(self, examples: list[Example], **options: Any) -> None:
        super().__init__(**options)
        self._examples = examples
        self.columns = len(examples[0].texts) if examples else 1

    def examples(self) -> Iterator[Example]:
        yield from self._examples

    def identity(self) -> Iterator[str]:
        return (repr(example) for example in self._examples)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "where": "a test", "licence": None}


class Cut:
    """Example sampler: five consecutive tokens from a random position of a document, then a random number."""

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        start = int(rng.integers(len(unit) - 4))
        return np.append(unit[start : start + 5], rng.integers(1000))

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        return Batch({"cut": Tokens.pad(examples, format.pad_id)}, size=len(examples))


def tokenizer() -> PreTrainedTokenizerFast:
    return train_bpe([document(i) for i in range(50)], vocab_size=320)


def sentence_table(cache: Path, documents: list[list[str]], rules: Sentences) -> TokenTable:
    """Returns a table whose units are the sentences of ``documents``, which blank lines separate."""
    tokenizer = train_words(LINES, vocab_size=500, min_count=1)
    source = Listed([Document("\n\n".join(lines)) for lines in documents], dev_fraction=0.2)
    return prepare(source, tokenizer, cache=cache, sentences=rules)
