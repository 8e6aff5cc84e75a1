"""Neighbouring sentences: selection, compared with a naive loop; units of a store; refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.errors import UserError
from data.sentences import Sentences
from data.store import TokenTable, prepare
from data.tokenizer import train_words
from data.views.neighbours import Neighbours, has_neighbours, select
from tests.data.samples import Document, Listed

LINES = [f"sentence {i} has {'many ' * (i % 7)}words ." for i in range(90)]
REPEATED = "nobody knows it ."


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30),
    st.lists(st.sampled_from([-2, -1, 1, 2]), max_size=2),
)
def test_sentences_with_usable_neighbours_equal_a_naive_loop(
    sentences: list[tuple[int, bool]], offsets: list[int]
) -> None:
    sentences.sort(key=lambda sentence: sentence[0])
    documents = np.array([document for document, _ in sentences], dtype=np.uint32)
    usable = np.array([flag for _, flag in sentences], dtype=bool)
    expected = [
        all(0 <= i + offset < len(sentences) and sentences[i + offset] == (document, True) for offset in offsets)
        for i, (document, _) in enumerate(sentences)
    ]
    assert has_neighbours(documents, usable, offsets).tolist() == expected


def store(cache: Path, documents: list[list[str]], **rules: int | bool) -> TokenTable:
    """Makes a store whose sentences are the given ones: blank lines separate them."""
    texts = ["\n\n".join(lines) for lines in documents]
    tokenizer = train_words([*LINES, REPEATED], vocab_size=500, min_count=1, max_length=64)
    source = Listed([Document(text) for text in texts], dev_fraction=0.2)
    settings = {"min_words": 1, "max_words": 9, "unique": False, **rules}
    return prepare(source, tokenizer, cache=cache, sentences=Sentences(**settings))  # type: ignore[arg-type]


DOCUMENTS = [LINES[3 * i : 3 * i + 3] for i in range(30)]


def test_neighbours_are_in_the_same_document_and_within_length_limits(tmp_path: Path) -> None:
    sentences = store(tmp_path, DOCUMENTS)  # the longest sentences have 11 words, more than max_words
    assert len(sentences) == 90
    short = {i for i, line in enumerate(LINES) if len(line.split()) <= 9}
    for offsets in ([1], [-1], [1, -1]):
        found = {i for part in ("train", "dev") for i in select(sentences, part, offsets).indices.tolist()}
        assert found == {
            i for i in short if all(i + offset in short and (i + offset) // 3 == i // 3 for offset in offsets)
        }
    train, dev = (select(sentences, part, [1]) for part in ("train", "dev"))
    assert not {i // 3 for i in train.indices} & {i // 3 for i in dev.indices}
    assert sum(len(part.indices) + sum(part.left_out.values()) for part in (train, dev)) == 90
    assert {*train.left_out} == {"too long", "without neighbours"}


def test_a_repeated_sentence_is_used_once_and_may_neighbour_several(tmp_path: Path) -> None:
    documents = [[LINES[2 * i], REPEATED, LINES[2 * i + 1]] for i in range(30)]
    sentences = store(tmp_path, documents, unique=True, max_words=50)
    indices = select(sentences, "train", [1]).indices
    assert sum(int(i) % 3 == 1 for i in indices) == 1
    assert sum(int(i) % 3 == 0 for i in indices) > 15  # the next sentence of each is the repeated one


def test_a_unit_is_a_sentence_and_its_neighbours(tmp_path: Path) -> None:
    sentences = store(tmp_path, DOCUMENTS)
    targets = [np.array([i]) for i in range(90)]
    unit = Neighbours(sentences, targets, (1, -1))[4]
    assert unit.sentence.tolist() == sentences[4].tolist()
    assert [neighbour.tolist() for neighbour in unit.neighbours] == [[5], [3]]


def test_refusals(tmp_path: Path) -> None:
    alone = store(tmp_path, [[line] for line in LINES])
    with pytest.raises(UserError):
        select(alone, "train", [1])
    tokenizer = train_words(LINES, vocab_size=50, min_count=1, max_length=64)
    documents = prepare(Listed([Document(line) for line in LINES]), tokenizer, cache=tmp_path)
    with pytest.raises(ValueError):
        select(documents, "train", [1])
