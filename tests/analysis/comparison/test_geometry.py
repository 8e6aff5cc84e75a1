"""Sentences shown on the page, their map and their neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.comparison import geometry
from analysis.neighbours import same
from data.errors import UserError
from tests.analysis.comparison.example_comparison import Hashing, texts


def test_sampled_sentences_are_fixed_and_labelled_by_document() -> None:
    sample = geometry.sample(texts(16), size=120)
    assert sample == geometry.sample(texts(16), size=120)
    assert len(sample.sentences) == 120 and len({*sample.groups}) == geometry.GROUPS == len(sample.labels)
    for sentence, group in zip(sample.sentences, sample.groups, strict=True):
        assert sentence.split()[3] == sample.labels[group].split()[3]  # "Sentence 3 of <document>"
    assert {*sample.sentences} <= {*sample.searched} and len(sample.queries) == geometry.QUERIES
    queries = {same(query) for query in sample.queries}
    assert not queries & {same(sentence) for sentence in sample.searched}


def test_queries_of_the_user_are_not_among_their_neighbours() -> None:
    first = geometry.sample(texts(), size=40).sentences[0]
    sample = geometry.sample(texts(), [first, "Quite another one."], size=40)
    assert sample.queries == (first, "Quite another one.") and first not in sample.searched
    found = geometry.embed(Hashing(0), sample)
    assert [len(near) for near in found.nearest] == [geometry.NEAREST] * 2


def test_short_documents_are_labelled_by_length() -> None:
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.integers(0, 900, size)) for size in rng.integers(5, 28, 300)]
    sample = geometry.sample(lines, size=100)
    assert len(sample.sentences) == 100 and sample.labels[0] == "5 to 8 words"
    for sentence, group in zip(sample.sentences, sample.groups, strict=True):
        low, _, high, _ = sample.labels[group].split()
        assert int(low) <= len(sentence.split()) <= int(high)


def test_too_little_text_is_refused() -> None:
    with pytest.raises(UserError, match=r"5 to 28 words in 1 documents, .* need 2: use more text"):
        geometry.sample(["One document of some few words in it.", "Two."])


def test_similar_sentences_are_close_on_the_map() -> None:
    """Documents differ in their words, so neighbours share labels; equal vectors have no map."""
    sample = geometry.sample(texts(), size=200)
    found = geometry.embed(Hashing(0), sample)
    assert found.places is not None and found.scores is not None
    assert found.places.shape == (200, 2) and found.dimension == 12
    assert found.scores.vectors > 4 * found.scores.guess
    near = found.nearest[0]
    assert [neighbour.cosine for neighbour in near] == sorted(
        (neighbour.cosine for neighbour in near), reverse=True
    )

    class ConstantEncoder:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.ones((len(sentences), 3), np.float32)

    assert geometry.embed(ConstantEncoder(), sample).places is None
