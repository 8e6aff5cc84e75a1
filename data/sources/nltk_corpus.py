"""Any corpus of the Natural Language Toolkit, by name: one document a file (Bird, Klein and Loper 2009)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader import BracketParseCorpusReader, PlaintextCorpusReader

from data.errors import UserError, reading
from data.sources.base import Example, Source


class NltkCorpus(Source):
    """A corpus that ``nltk.corpus`` has a reader for: brown, gutenberg, treebank, reuters, ...

    Plain text is read unchanged. Tagged and parsed text is read as words, without the empty elements of parses.

    Args:
        corpus: its name in ``nltk.corpus``.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if there is no such reader, its data is not installed, or it has no running text.
    """

    name = "nltk"

    def __init__(self, *, corpus: str, **shared: Any) -> None:
        super().__init__(**shared)
        self.corpus = corpus
        self._reader = corpus_reader(corpus)

    def examples(self) -> Iterator[Example]:
        with reading("corpus", f"nltk {self.corpus}"):
            for fileid in self._reader.fileids():
                yield Example((_text(self._reader, fileid),))

    def identity(self) -> Iterator[str]:
        return (example.texts[0] for example in self.examples())

    def describe(self) -> dict[str, Any]:
        return {"name": f"nltk {self.corpus}", "where": "nltk.org/nltk_data", "licence": None}

    @property
    def total(self) -> int:
        return len(self._reader.fileids())


def corpus_reader(corpus: str, key: str = "corpus.corpus", method: str = "sents") -> Any:
    """Returns NLTK's reader of a corpus.

    Args:
        corpus: its name in ``nltk.corpus``.
        key: configuration key, for messages.
        method: method that the reader must have: "parsed_sents" of trees.

    Raises:
        UserError: if there is no such reader, its data is not installed, or it lacks ``method``.
    """
    # ``import nltk.corpus`` gives a lazy module without names
    reader: Any = getattr(importlib.import_module("nltk.corpus"), corpus, None)
    try:
        reader.ensure_loaded()
    except LookupError:
        hint = f"Run python -c \"import nltk; nltk.download('{corpus}')\", or set NLTK_DATA to its folder."
        raise UserError(f"the data of nltk's {corpus!r} is not installed", key=key, hint=hint) from None
    except AttributeError:
        raise UserError(f"nltk has no corpus {corpus!r}", key=key) from None
    if not hasattr(reader, method):
        raise UserError(f"nltk's {corpus!r} has no {method}", key=key)
    return reader


def _text(reader: Any, fileid: str) -> str:
    if isinstance(reader, PlaintextCorpusReader):
        return reader.raw(fileid)
    if isinstance(reader, BracketParseCorpusReader):
        return " ".join(word for word, tag in reader.tagged_words(fileid) if tag != "-NONE-")
    return " ".join(reader.words(fileid))
