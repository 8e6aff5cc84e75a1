"""Documents to sentences, with and without NLTK's data."""

from __future__ import annotations

from itertools import islice

import nltk.data
import pytest

from data.sentences import split_sentences
from data.sources.base import normalise
from data.sources.text import Text
from tests.support import suite_data


def test_trained_on_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    texts = ["It was dark. The wind blew.", "A new document.", ""]
    assert split_sentences(iter(texts)) == ["It was dark.", "The wind blew.", "A new document."]
    assert split_sentences(texts, limit=2) == ["It was dark.", "The wind blew."]
    assert split_sentences([]) == []


def test_trained_and_installed_model_agree_on_real_books(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Text(path=str(suite_data("corpora/standardebooks") / "shard-0.jsonl.gz"))
    texts = [normalise(document.text) for document in islice(source.documents(), 12)]
    monkeypatch.setattr(nltk.data, "path", [])
    trained = split_sentences(texts)
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    installed = split_sentences(texts)
    letters = ["".join(parts).replace(" ", "") for parts in (trained, installed, texts)]
    assert letters[0] == letters[1] == letters[2]
    assert len(set(trained) & set(installed)) > 0.9 * len(set(installed)) > 900
