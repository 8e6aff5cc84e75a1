"""Vectors: checks of an encoder's output, each sentence embedded once, stores on disk, independence of tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from analysis.senteval.vectors import INDEX, ROWS, CheckedEncoder, embed, embed_tasks
from data.errors import UserError
from encoders.random_vectors import RandomVectors

SENTENCES = ["a", "bb bb", "", "a", "ccc " * 9, "é\u2028\n\ud800", ".", "bb bb", "dd"]
DISTINCT = [*dict.fromkeys(SENTENCES)]


class Recorder:
    """Function that records its calls and returns random vectors, infinite ones for sentences with "bad"."""

    def __init__(self, dimension: int = 6) -> None:
        self.encoder, self.calls = RandomVectors(dimension=dimension), list[list[str]]()

    def __call__(self, sentences: list[str]) -> np.ndarray:
        self.calls.append(sentences)
        vectors = self.encoder.encode(sentences)
        vectors[["bad" in sentence for sentence in sentences]] = np.inf
        return vectors

    @property
    def sentences(self) -> list[str]:
        return [sentence for call in self.calls for sentence in call]


def expected(sentences: Sequence[str], dimension: int = 6) -> np.ndarray:
    return RandomVectors(dimension=dimension).encode(sentences)


@pytest.mark.parametrize("stored", [True, False])
def test_each_distinct_sentence_is_embedded_once_longest_first(stored: bool, tmp_path: Path) -> None:
    function, shares = Recorder(), list[float]()
    store = tmp_path / "store" if stored else None
    vectors = embed(CheckedEncoder(function, 4), SENTENCES, store=store, progress=shares.append)
    assert sorted(function.sentences) == sorted(DISTINCT) and [*map(len, function.calls)] == [4, 3]
    assert [*map(len, function.sentences)] == sorted(map(len, DISTINCT), reverse=True)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 2
    assert vectors.matrix.shape == (7, 6) and vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.rows(SENTENCES), expected(SENTENCES))
    index = vectors.index(SENTENCES)
    assert index.dtype == np.int64 and index[0] == index[3] and type(vectors.rows(SENTENCES)) is np.ndarray
    assert {*vectors.seconds} == {*DISTINCT} and min(vectors.seconds.values()) > 0
    assert embed(CheckedEncoder(function), [], store=store).rows([]).shape[0] == 0
    with pytest.raises(KeyError):
        vectors.index(["never embedded"])


def test_stored_sentences_are_not_embedded_again(tmp_path: Path) -> None:
    first = embed(CheckedEncoder(Recorder()), SENTENCES[:5], store=tmp_path)
    function = Recorder()
    vectors = embed(CheckedEncoder(function), SENTENCES, store=tmp_path)
    assert {*function.sentences} == {*SENTENCES} - {*SENTENCES[:5]}
    np.testing.assert_array_equal(vectors.rows(SENTENCES), expected(SENTENCES))
    assert vectors.seconds["a"] == first.seconds["a"]
    again = Recorder()
    assert (
        isinstance(embed(CheckedEncoder(again), SENTENCES, store=tmp_path).matrix, np.memmap) and not again.calls
    )
    assert np.load(tmp_path / ROWS, mmap_mode="r").shape == (7, 6)
    with pytest.raises(UserError):  # another dimension
        embed(CheckedEncoder(Recorder(5)), ["new"], store=tmp_path)


WRITER = """
import sys
from pathlib import Path
from analysis.senteval.vectors import CheckedEncoder, embed
from encoders.random_vectors import RandomVectors
def encode(sentences):
    print("chunk", flush=True)
    return RandomVectors(dimension=6).encode(sentences)
embed(CheckedEncoder(encode, 4), [f"sentence {i}" for i in range(100_000)], store=Path(sys.argv[1]))
"""


def test_a_kill_leaves_a_usable_store(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(6):
        assert process.stdout.readline() == "chunk\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with (tmp_path / INDEX).open("a") as file:
        file.write('["half a li')
    kept = [json.loads(line)[0] for line in (tmp_path / INDEX).read_text().splitlines()[:-1]]
    assert 4 * 4 <= len(kept) < 100_000
    function, request = Recorder(), [*kept, "sentence 3", "new"]
    vectors = embed(CheckedEncoder(function), request, store=tmp_path)
    np.testing.assert_array_equal(vectors.rows(request), expected(request))
    assert {*function.sentences}.isdisjoint(kept)


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    functions = Recorder(), Recorder()
    requests = [[f"s{i}" for i in range(40)], [f"s{i}" for i in range(20, 60)]]

    def run(function: Recorder, request: list[str]) -> None:
        vectors = embed(CheckedEncoder(function, 4), request, store=tmp_path)
        np.testing.assert_array_equal(vectors.rows(request), expected(request))

    with ThreadPoolExecutor() as pool:
        [*pool.map(run, functions, requests)]
    assert sum(len(function.sentences) for function in functions) == 60


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    embed(CheckedEncoder(Recorder()), SENTENCES, store=tmp_path)
    os.truncate(tmp_path / ROWS, 140)
    with pytest.raises(UserError) as error:
        embed(CheckedEncoder(Recorder()), SENTENCES, store=tmp_path)
    assert error.value.key == str(tmp_path)


TAKEN = {
    "float16": lambda rows: rows.astype(np.float16),
    "integers": lambda rows: (100 * rows).astype(np.int64),
    "tuple of arrays": tuple,
    "bfloat16": lambda rows: torch.tensor(rows).bfloat16(),
    "list of tensors": lambda rows: [torch.tensor(row, requires_grad=True) for row in rows],
}
REFUSED = {
    "a number": lambda rows: 3.0,
    "numbers instead of vectors": lambda rows: rows[:, 0],
    "strings": lambda rows: [str(row) for row in rows],
    "vectors without numbers": lambda rows: rows[:, :0],
    "ragged lists": lambda rows: [row[: 1 + place].tolist() for place, row in enumerate(rows)],
    "scipy matrix": csr_matrix,
    "sparse tensor": lambda rows: torch.tensor(rows).to_sparse(),
    "dimension of the batch": lambda rows: np.zeros((len(rows), len(rows))),
    "NaN": lambda rows: np.full_like(rows, np.nan),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_dense_numbers_are_taken(kind: str) -> None:
    function: Any = TAKEN[kind]
    encoder = CheckedEncoder(lambda sentences: function(expected(sentences)))
    vectors = embed(encoder, SENTENCES).rows(SENTENCES)
    scale = 100 if kind == "integers" else 1
    np.testing.assert_allclose(vectors / scale, expected(SENTENCES), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", REFUSED)
def test_anything_else_is_one_line(kind: str) -> None:
    function: Any = REFUSED[kind]
    with pytest.raises(UserError) as error:
        embed(CheckedEncoder(lambda sentences: function(expected(sentences)), 4), SENTENCES)
    assert error.value.key == "encode" and "\n" not in str(error.value)


TASKS = {"one": ["a", "a b", "a b c d e f"], "two": ["a b", "a b c d", "x"]}


def pad_to_longest(sentences: list[str]) -> np.ndarray:
    """Returns vectors that depend on the longest sentence of a call."""
    return expected(sentences) + 0.1 * max(map(len, sentences))


@pytest.mark.parametrize("stored", [True, False])
def test_tasks_share_vectors_only_if_these_do_not_depend_on_others(stored: bool, tmp_path: Path) -> None:
    store = tmp_path if stored else None
    function = Recorder()
    vectors = embed_tasks(CheckedEncoder(function), TASKS, store=store and store / "shared")
    assert vectors["one"] is vectors["two"] and max(map(len, function.calls)) == 5
    assert {*function.sentences} == {sentence for texts in TASKS.values() for sentence in texts}
    shares = list[float]()
    both = embed_tasks(
        CheckedEncoder(pad_to_longest), TASKS, store=store and store / "padded", progress=shares.append
    )
    assert shares == [1, 1]
    for task, texts in TASKS.items():
        alone = embed_tasks(CheckedEncoder(pad_to_longest), {task: texts})[task]
        np.testing.assert_array_equal(both[task].rows(texts), alone.rows(texts))
    assert (both["one"].rows(["a b"]) != both["two"].rows(["a b"])).all()


def test_an_encoder_that_changes_from_call_to_call_is_refused() -> None:
    dropout = torch.nn.Dropout(0.1)  # in training mode
    with pytest.raises(UserError) as error:
        embed_tasks(CheckedEncoder(lambda sentences: dropout(torch.ones(len(sentences), 99))), TASKS)
    assert error.value.key == "encode" and error.value.hint
    dropout.eval()
    embed_tasks(CheckedEncoder(lambda sentences: dropout(torch.ones(len(sentences), 99))), TASKS)
