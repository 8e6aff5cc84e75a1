"""Nearest neighbours: against a full sort, for any block size; duplicates, ties, formats, error messages."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.neighbours import Neighbour, as_markdown, neighbours, report_neighbours, same
from data.errors import UserError
from encoders.random_vectors import RandomVectors

LINES = ["the sun", "The  Sun", "moon", "", "a star", "moon", "zero", "mars"]
VECTORS = {"sun": (1, 0), "moon": (0.8, 0.6), "star": (0, 2), "zero": (0, 0), "mars": (-1, 0), "earth": (3, 4)}


def embed_last_words(sentences: Sequence[str]) -> np.ndarray:
    return np.array([VECTORS[text.lower().split()[-1]] for text in sentences], dtype=np.float32)


def numbered(lines: Sequence[str]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(lines, start=1) if line]


def test_neighbours_solved_by_hand() -> None:
    [sun, earth] = neighbours(["THE SUN", "earth"], numbered(LINES), embed_last_words, 3)
    assert [(neighbour.line, neighbour.text) for neighbour in sun] == [(3, "moon"), (5, "a star"), (7, "zero")]
    # Ties are in the order of their lines.
    assert [neighbour.cosine for neighbour in sun] == pytest.approx([0.8, 0, 0], abs=1e-6)
    assert [(neighbour.line, neighbour.text) for neighbour in earth] == [
        (3, "moon"),
        (5, "a star"),
        (1, "the sun"),
    ]
    assert [neighbour.cosine for neighbour in earth] == pytest.approx([0.96, 0.8, 0.6], abs=1e-6)
    [all_of_them] = neighbours(["the sun"], numbered(LINES), embed_last_words, 10)
    assert [neighbour.text for neighbour in all_of_them] == ["moon", "a star", "zero", "mars"]


@given(
    st.lists(st.text("aAbB ", min_size=1, max_size=3), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(1, 9),
)
def test_neighbours_equal_a_full_sort_for_any_block_size(lines: list[str], k: int, block: int) -> None:
    encoder = RandomVectors(dimension=3)

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.round(encoder.encode(list(texts)))  # some vectors are zero, some cosines equal

    queries = ["ab", "B"]
    found = neighbours(queries, numbered(lines), embed, k, block=block)
    for query, near in zip(queries, found, strict=True):
        a = embed([query])[0].astype(np.float64)
        best: dict[str, float] = {}
        for _, text in numbered(lines):
            b = embed([text])[0].astype(np.float64)
            norm = np.linalg.norm(a) * np.linalg.norm(b)
            best[same(text)] = max(best.get(same(text), -2.0), float(a @ b / norm) if norm else 0.0)
        best.pop(same(query), None)
        assert [neighbour.cosine for neighbour in near] == pytest.approx(
            sorted(best.values(), reverse=True)[:k], abs=1e-6
        )
        assert len({same(neighbour.text) for neighbour in near}) == len(near)
        assert all(best[same(neighbour.text)] == pytest.approx(neighbour.cosine, abs=1e-6) for neighbour in near)
        assert all(lines[neighbour.line - 1] == neighbour.text for neighbour in near)


def test_only_one_block_is_in_memory() -> None:
    block_sizes = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        block_sizes.append(len(texts))
        return np.ones((len(texts), 2), dtype=np.float32)

    [found] = neighbours(["q"], ((i, f"s{i}") for i in range(1, 101)), embed, 3, block=16)
    assert block_sizes == [1, *[16] * 6, 4]
    assert [neighbour.line for neighbour in found] == [1, 2, 3]


def test_markdown_is_escaped() -> None:
    text = as_markdown([("m|n", {"a|b": [Neighbour(0.5, 3, "*c*")]})])
    assert text.splitlines() == [
        "## m\\|n",
        "",
        "**a\\|b**",
        "",
        "| cosine | sentence | line |",
        "| --: | :-- | --: |",
        "| 0.500 | \\*c\\* | 3 |",
    ]


def test_the_command_prints_neighbours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out = tmp_path / "lines.txt.gz", tmp_path / "found.json"
    with gzip.open(text, "wt") as file:
        file.write("one\ntwo\n\n  \nthree\ntwo\n")
    (tmp_path / "asked.txt").write_text("one\n\nfour\n")
    options: dict[str, Any] = {
        "sentences": f"~/{text.name}",
        "k": 2,
        "queries": ["one"],
        "queries_file": "~/asked.txt",
    }
    options |= {"cache": str(tmp_path / "cache"), "out": str(out)}
    monkeypatch.setenv("HOME", str(tmp_path))
    report_neighbours(models=["random_vectors", "declutr-mini"], **options)
    blocks = capsys.readouterr().out.split("\n\n")
    heads = ["random_vectors:", "one", "four", "declutr-mini:", "one", "four"]
    assert [part.splitlines()[0] for part in blocks] == heads
    first, second = json.loads(out.read_text())["neighbours"]
    assert (first["model"]["name"], second["model"]["name"]) == ("random_vectors", "declutr-mini")
    assert [entry["query"] for entry in first["queries"]] == ["one", "four"]
    assert {entry["text"] for entry in first["queries"][0]["neighbours"]} == {"two", "three"}
    assert {entry["line"] for entry in first["queries"][0]["neighbours"]} == {2, 5}
    report_neighbours(models=["random_vectors"], **options, format="csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["model"], row["query"], row["rank"]) for row in rows] == [
        ("random_vectors", "one", "1"),
        ("random_vectors", "one", "2"),
        ("random_vectors", "four", "1"),
        ("random_vectors", "four", "2"),
    ]


def test_texts_without_a_query_or_a_neighbour_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("ONE\n")
    (tmp_path / "empty.txt").write_text("\n")
    options: dict[str, Any] = {"models": ["random_vectors"], "sentences": str(tmp_path / "one.txt"), "cache": None}
    for queries, key in (
        ({}, "queries"),
        ({"queries_file": str(tmp_path / "empty.txt")}, "queries"),
        ({"queries": ["one"]}, "sentences"),
    ):
        with pytest.raises(UserError) as error:
            report_neighbours(**options, **queries)
        assert error.value.key == key
