"""Splitting documents into sentences, with and without NLTK's data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import nltk.data
import pytest
from nltk import redos

from data.errors import UserError
from data.sentences import Sentences, split_sentences, splitter, splitter_kind
from data.sources.base import normalise
from data.sources.text import Text
from tests.real_data import suite_data

TEXTS = ["It was dark. The wind blew.", "A new document.", ""]


def test_a_splitter_is_trained_on_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    assert split_sentences(iter(TEXTS)) == ["It was dark.", "The wind blew.", "A new document."]
    assert split_sentences(TEXTS, limit=2) == ["It was dark.", "The wind blew."]
    assert split_sentences([]) == []


def test_splitting_has_no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    text = 'Mr. Smith (aged 3.5) said: "Well ... no!" Who? -- He. e.g. this. A. B. C. ' * 200
    split = splitter(lambda: [text])
    expected = split(text)
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-6)
    assert splitter(lambda: [text])(text) == split(text) == expected
    assert redos.DEFAULT_TIMEOUT == 1e-6


def test_the_texts_are_read_only_without_an_installed_model(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def texts() -> Iterator[str]:
        read.append(True)
        yield from TEXTS

    monkeypatch.setattr(nltk.data, "path", [])
    assert splitter_kind() == "trained"
    splitter(texts)
    assert read == [True]
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    assert splitter_kind() == "nltk-english"
    assert splitter(texts)("Mr. Smith left. He was late.") == ["Mr. Smith left.", "He was late."]
    assert read == [True]


def test_trained_and_installed_model_agree_on_real_books(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Text(path=str(suite_data("corpora/standardebooks") / "shard-0.jsonl.gz"))
    texts = [normalise(example.texts[0]) for example in islice(source.examples(), 12)]
    monkeypatch.setattr(nltk.data, "path", [])
    trained = split_sentences(texts)
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    installed = split_sentences(texts)
    letters = ["".join(parts).replace(" ", "") for parts in (trained, installed, texts)]
    assert letters[0] == letters[1] == letters[2]
    assert len(set(trained) & set(installed)) > 0.9 * len(set(installed)) > 900


def test_refusals() -> None:
    assert Sentences(min_words=4, max_words=4).split
    with pytest.raises(UserError) as error:
        Sentences(min_words=5, max_words=4)
    assert error.value.key == "sentences.max_words"
