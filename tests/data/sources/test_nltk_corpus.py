"""NLTK's corpora: the running text of a parsed corpus."""

from __future__ import annotations

import nltk.data
import pytest

from data.sources.base import fingerprint
from data.sources.nltk_corpus import NltkCorpus
from tests.real_data import suite_data


def test_text_of_the_treebank_has_no_empty_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    source = NltkCorpus(corpus="treebank")
    documents = [example.texts[0] for example in source.examples()]
    assert len(documents) == 199
    assert documents[0].startswith("Pierre Vinken , 61 years old , will join the board as a nonexecutive director")
    assert not any("*T*-1" in text or "*-1" in text for text in documents)
    assert source.fingerprint == fingerprint(*documents)
