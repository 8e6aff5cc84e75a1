"""Any corpus of the Natural Language Toolkit, by name: one document a file (Bird, Klein and Loper 2009)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader import BracketParseCorpusReader, PlaintextCorpusReader

from data.errors import reading
from data.sources.base import Example, Source


class NltkCorpus(Source):
    """A corpus that ``nltk.corpus`` has a reader for: brown, gutenberg, treebank, reuters, ...

    Plain text is read unchanged. Tagged and parsed text is read as words, without the empty elements of parses.

    Args:
        corpus: its name in ``nltk.corpus``.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if there is no such reader, or its data is not installed; while reading, if it has no words.
    """

    name = "nltk"

    def __init__(self, *, corpus: str, **shared: Any) -> None:
        super().__init__(**shared)
        self.corpus = corpus
        with reading("corpus of nltk", "corpus.corpus"):  # whose error says how to install its data
            self._reader: Any = getattr(importlib.import_module("nltk.corpus"), corpus)  # a lazy module
            self._reader.ensure_loaded()

    def examples(self) -> Iterator[Example]:
        with reading("corpus", f"nltk {self.corpus}"):
            for fileid in self._reader.fileids():
                yield Example((_text(self._reader, fileid),))

    def identity(self) -> Iterator[str]:
        return (example.texts[0] for example in self.examples())

    def describe(self) -> dict[str, Any]:
        return {"name": f"nltk {self.corpus}", "where": "nltk.org/nltk_data", "licence": None}


def _text(reader: Any, fileid: str) -> str:
    if isinstance(reader, PlaintextCorpusReader):
        return reader.raw(fileid)
    if isinstance(reader, BracketParseCorpusReader):
        return " ".join(word for word, tag in reader.tagged_words(fileid) if tag != "-NONE-")
    return " ".join(reader.words(fileid))
