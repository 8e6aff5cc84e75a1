"""Nearest neighbours: by hand, and against a full sort; duplicates, and files."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.models import Model
from analysis.neighbours import evaluate_neighbours, neighbours
from analysis.senteval.scores import cosines as cosines_of_pairs
from encoders.random_vectors import RandomVectors

LINES = ["the sun", "the sun", "moon", "a star", "moon", "zero", "mars"]
VECTORS = {"sun": (1, 0), "moon": (0.8, 0.6), "star": (0.1, 2), "zero": (0, 0), "mars": (-1, 0), "earth": (3, 4)}


def embed_last_words(sentences: Sequence[str]) -> np.ndarray:
    return np.array([VECTORS[text.lower().split()[-1]] for text in sentences], dtype=np.float32)


def test_neighbours_solved_by_hand() -> None:
    sun, earth = neighbours(["the sun", "earth"], LINES, embed_last_words, 3)
    assert [*sun.index] == ["moon", "a star", "zero"] and [*earth.index] == ["moon", "a star", "the sun"]
    assert sun.tolist() == pytest.approx([0.8, 0.1 / np.hypot(0.1, 2), 0], abs=1e-6)


@given(st.lists(st.text("aAbB ", min_size=1, max_size=3), min_size=1, max_size=40), st.integers(1, 6))
def test_neighbours_equal_a_full_sort(lines: list[str], k: int) -> None:
    encoder = RandomVectors(dimension=3)

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.round(encoder.encode(list(texts)))  # some vectors are zero, some cosines equal

    distinct = [*dict.fromkeys(lines)]
    for query, near in zip(["ab", "B"], neighbours(["ab", "B"], lines, embed, k), strict=True):
        others = [text for text in distinct if text != query]
        cosines = dict(zip(others, cosines_of_pairs(embed([query] * len(others)), embed(others)), strict=True))
        assert near.tolist() == pytest.approx(sorted(cosines.values(), reverse=True)[:k], abs=1e-6)
        assert near.to_dict() == pytest.approx({text: cosines[text] for text in near.index}, abs=1e-6)


def test_neighbours_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "lines.txt.gz", "wt") as file:
        file.write("one\ntwo\n\n  \nthree\ntwo\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    model = Model("random", RandomVectors())
    scores = evaluate_neighbours(model, sentences="~/lines.txt.gz", queries=["three", "four"], k=2)
    assert {*scores} >= {"three → one", "three → two"} and len(scores) == 4
