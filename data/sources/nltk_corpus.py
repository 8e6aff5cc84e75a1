"""Any corpus of the Natural Language Toolkit, by name: one document a file (Bird, Klein and Loper 2009)."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from typing import Any

from nltk.corpus.reader import BracketParseCorpusReader, CorpusReader, PlaintextCorpusReader
from nltk.corpus.util import LazyCorpusLoader

from data.errors import UserError, reading
from data.sources.base import Document, Source

CORPORA = vars(importlib.import_module("nltk.corpus"))  # ``import nltk.corpus`` gives a lazy module without names


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

    def documents(self) -> Iterator[Document]:
        with reading("corpus", f"nltk {self.corpus}"):
            for fileid in self._reader.fileids():
                yield Document(_text(self._reader, fileid))

    def identity(self) -> Iterator[str]:
        return (document.text for document in self.documents())

    def describe(self) -> dict[str, Any]:
        try:
            licence = self._reader.license()
        except OSError:
            licence = None
        return {"name": f"nltk {self.corpus}", "where": "nltk.org/nltk_data", "licence": licence}

    @property
    def total(self) -> int:
        return len(self._reader.fileids())


def corpus_reader(corpus: str, key: str = "corpus.corpus") -> Any:
    """Returns NLTK's reader of a corpus.

    Args:
        corpus: its name in ``nltk.corpus``.
        key: of the setting, for messages.

    Raises:
        UserError: if there is no such reader, or its data is not installed.
    """
    kinds = LazyCorpusLoader, CorpusReader  # the first becomes the second when it is used
    names = [name for name, value in CORPORA.items() if isinstance(value, kinds)]
    if corpus not in names:
        near = difflib.get_close_matches(corpus, names, n=1)
        raise UserError(f"nltk has no corpus {corpus!r}", key=key, hint=f"Did you mean {near[0]}?" if near else "")
    reader: Any = CORPORA[corpus]
    try:
        reader.ensure_loaded()
    except LookupError:
        hint = f"Run python -c \"import nltk; nltk.download('{corpus}')\", or set NLTK_DATA to its folder."
        raise UserError(f"the data of nltk's {corpus!r} is not installed", key=key, hint=hint) from None
    if not hasattr(reader, "sents"):
        raise UserError(f"nltk's {corpus!r} has no running text", key=key)
    return reader


def _text(reader: Any, fileid: str) -> str:
    if isinstance(reader, PlaintextCorpusReader):
        return reader.raw(fileid)
    if isinstance(reader, BracketParseCorpusReader):
        return " ".join(word for word, tag in reader.tagged_words(fileid) if tag != "-NONE-")
    return " ".join(reader.words(fileid))
