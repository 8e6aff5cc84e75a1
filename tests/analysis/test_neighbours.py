"""Nearest neighbours: by hand, and against a full sort; duplicates, and texts without queries or neighbours."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.models import Model
from analysis.neighbours import evaluate_neighbours, fold, neighbours
from data.errors import UserError
from encoders.random_vectors import RandomVectors

LINES = ["the sun", "The  Sun", "moon", "a star", "moon", "zero", "mars"]
VECTORS = {"sun": (1, 0), "moon": (0.8, 0.6), "star": (0.1, 2), "zero": (0, 0), "mars": (-1, 0), "earth": (3, 4)}


def embed_last_words(sentences: Sequence[str]) -> np.ndarray:
    return np.array([VECTORS[text.lower().split()[-1]] for text in sentences], dtype=np.float32)


def test_neighbours_solved_by_hand() -> None:
    [sun, earth] = neighbours(["THE SUN", "earth"], [*enumerate(LINES, 1)], embed_last_words, 3)
    assert [(near.line, near.text) for near in sun] == [(3, "moon"), (4, "a star"), (6, "zero")]
    assert [near.cosine for near in sun] == pytest.approx([0.8, 0.1 / np.hypot(0.1, 2), 0], abs=1e-6)
    assert [(near.line, near.text) for near in earth] == [(3, "moon"), (4, "a star"), (1, "the sun")]
    [every] = neighbours(["the sun"], [*enumerate(LINES, 1)], embed_last_words, 10)
    assert [near.text for near in every] == ["moon", "a star", "zero", "mars"]


@given(st.lists(st.text("aAbB ", min_size=1, max_size=3), min_size=1, max_size=40), st.integers(1, 6))
def test_neighbours_equal_a_full_sort(lines: list[str], k: int) -> None:
    encoder = RandomVectors(dimension=3)

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.round(encoder.encode(list(texts)))  # some vectors are zero, some cosines equal

    queries = ["ab", "B"]
    for query, near in zip(queries, neighbours(queries, [*enumerate(lines, 1)], embed, k), strict=True):
        a, cosines = embed([query])[0].astype(np.float64), {}
        for number, text in reversed([*enumerate(lines, 1)]):
            b = embed([text])[0].astype(np.float64)
            norm = np.linalg.norm(a) * np.linalg.norm(b)
            cosines[fold(text)] = (float(a @ b / norm) if norm else 0.0), number
        cosines.pop(fold(query), None)
        best = sorted((cosine for cosine, _ in cosines.values()), reverse=True)[:k]
        assert [each.cosine for each in near] == pytest.approx(best, abs=1e-6)
        for each in near:
            assert (each.cosine, each.line) == pytest.approx(cosines[fold(each.text)], abs=1e-6)
            assert lines[each.line - 1] == each.text


def test_neighbours_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "lines.txt.gz", "wt") as file:
        file.write("one\ntwo\n\n  \nthree\ntwo\n")
    (tmp_path / "asked.txt").write_text("one\n\nfour\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    options: dict[str, Any] = {"queries": ["three"], "queries_file": "~/asked.txt", "k": 2}
    scores = evaluate_neighbours(Model("random", RandomVectors()), sentences="~/lines.txt.gz", **options)
    assert {*scores} >= {
        "three → one (line 1)",
        "three → two (line 2)",
        "one → two (line 2)",
        "one → three (line 5)",
    }
    assert len(scores) == 6


def test_files_without_a_query_or_a_sentence_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("ONE\n")
    (tmp_path / "empty.txt").write_text("\n")
    model, one, empty = Model("random", RandomVectors()), str(tmp_path / "one.txt"), str(tmp_path / "empty.txt")
    for key, settings in (
        ("queries", {"sentences": one}),
        ("queries", {"sentences": one, "queries_file": empty}),
        ("sentences", {"sentences": empty, "queries": ["one"]}),
    ):
        with pytest.raises(UserError) as error:
            evaluate_neighbours(model, **settings)
        assert error.value.key == key
