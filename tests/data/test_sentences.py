"""Splitting documents into sentences."""

from __future__ import annotations

from itertools import islice

import nltk
import pytest

from data.sentences import installed_splitter, split_sentences, splitter
from data.sources.base import normalise
from data.sources.text import Text
from tests.real_data import suite_data

TEXTS = ["It was dark. The wind blew.", "A new document.", ""]


def test_a_splitter_is_trained_on_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    assert installed_splitter() is None
    assert split_sentences(iter(TEXTS)) == ["It was dark.", "The wind blew.", "A new document."]


def test_trained_and_installed_model_agree_on_real_books(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Text(path=str(suite_data("corpora/standardebooks") / "shard-0.jsonl.gz"))
    texts = [normalise(example.texts[0]) for example in islice(source.examples(), 12)]
    monkeypatch.setattr(nltk.data, "path", [])
    trained = split_sentences(texts)
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    installed = split_sentences(texts)
    assert splitter([])("Mr. Smith left. He was late.") == ["Mr. Smith left.", "He was late."]
    letters = ["".join(parts).replace(" ", "") for parts in (trained, installed, texts)]
    assert letters[0] == letters[1] == letters[2]
    assert len(set(trained) & set(installed)) > 0.9 * len(set(installed)) > 900
