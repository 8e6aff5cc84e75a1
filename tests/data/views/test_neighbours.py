"""Neighbouring sentences: selection, compared with a naive loop; units of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.sentences import Sentences
from data.views.neighbours import Neighbours, has_neighbours, select
from tests.data.samples import DOCUMENTS, LINES, sentence_table


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
    mask = [
        all(0 <= i + offset < len(sentences) and sentences[i + offset] == (document, True) for offset in offsets)
        for i, (document, _) in enumerate(sentences)
    ]
    assert has_neighbours(documents, usable, offsets).tolist() == mask


def test_neighbours_are_in_the_same_document_and_within_length_limits(tmp_path: Path) -> None:
    sentences = sentence_table(tmp_path, DOCUMENTS, Sentences(max_words=9, unique=False))
    short = {i for i, line in enumerate(LINES) if len(line.split()) <= 9}
    for offsets in ([1], [-1], [1, -1]):
        selections = [select(sentences, part, offsets) for part in ("train", "dev")]
        assert {i for part in selections for i in part.indices.tolist()} == {
            i for i in short if all(i + offset in short and (i + offset) // 3 == i // 3 for offset in offsets)
        }
        assert sum(len(part.indices) + sum(part.left_out.values()) for part in selections) == 90
        assert all({*part.left_out} == {"too long", "without neighbours"} for part in selections)
    unit = Neighbours(sentences, [np.array([i]) for i in range(90)], (1, -1))[4]
    assert unit.sentence.tolist() == sentences[4].tolist()
    assert [neighbour.tolist() for neighbour in unit.neighbours] == [[5], [3]]


def test_a_repeated_sentence_is_used_once_and_may_neighbour_several(tmp_path: Path) -> None:
    documents = [[LINES[2 * i], LINES[-1], LINES[2 * i + 1]] for i in range(30)]
    indices = select(sentence_table(tmp_path, documents, Sentences()), "train", [1]).indices
    assert sum(int(i) % 3 == 1 for i in indices) == 1
    assert sum(int(i) % 3 == 0 for i in indices) > 15  # the next sentence of each is the repeated one
