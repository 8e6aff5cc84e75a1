"""Documents to sentences, with and without NLTK's data."""

from __future__ import annotations

import nltk.data
import pytest

from data.sentences import split_sentences
from tests.support import suite_data

TEXTS = ["Dr. Smith came at nine. He left at ten! Why? Nobody knows."] * 30


def test_trained_on_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    sentences = split_sentences(["It was dark. The wind blew.", "A new document.", ""])
    assert sentences == ["It was dark.", "The wind blew.", "A new document."]
    assert split_sentences(TEXTS)[:4] == ["Dr. Smith came at nine.", "He left at ten!", "Why?", "Nobody knows."]
    assert split_sentences([]) == []


def test_installed_model_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    assert split_sentences(iter(TEXTS), limit=2) == ["Dr. Smith came at nine.", "He left at ten!"]
