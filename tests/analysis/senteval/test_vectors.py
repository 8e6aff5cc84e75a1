"""Vectors: checks of an encoder's output, each sentence embedded once, stores on disk, independence of tasks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from analysis.senteval.vectors import INDEX, ROWS, CheckedEncoder, embed, embed_tasks
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval.recorder import Recorder

SENTENCES = ["a", "bb bb", "", "a", "ccc " * 9, "é\u2028\n\ud800", ".", "bb bb", "dd"]
DISTINCT = [*dict.fromkeys(SENTENCES)]


def expectation(sentences: Sequence[str]) -> np.ndarray:
    return RandomVectors(dimension=8).encode(sentences)


@pytest.mark.parametrize("stored", [True, False])
def test_each_distinct_sentence_is_embedded_once_longest_first(stored: bool, tmp_path: Path) -> None:
    function, shares = Recorder(), list[float]()
    store = tmp_path / "store" if stored else None
    vectors = embed(CheckedEncoder(function, 4), SENTENCES, store=store, progress=shares.append)
    assert sorted(function.sentences) == sorted(DISTINCT) and [*map(len, function.calls)] == [4, 3]
    assert [*map(len, function.sentences)] == sorted(map(len, DISTINCT), reverse=True)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 2
    assert vectors.matrix.shape == (7, 8) and vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.rows(SENTENCES), expectation(SENTENCES))
    assert {*vectors.seconds} == {*DISTINCT} and min(vectors.seconds.values()) > 0


def test_stored_sentences_are_not_embedded_again(tmp_path: Path) -> None:
    """Whole chunks of an interrupted call are kept; the last line of the index is cut."""
    with pytest.raises(KeyboardInterrupt):
        embed(CheckedEncoder(Recorder(stop=1), 4), SENTENCES, store=tmp_path)
    with (tmp_path / INDEX).open("a") as file:
        file.write('["half a li')
    function, again = Recorder(), Recorder()
    vectors = embed(CheckedEncoder(function), SENTENCES, store=tmp_path)
    assert {*function.sentences} == {*sorted(DISTINCT, key=len)[:3]}
    np.testing.assert_array_equal(vectors.rows(SENTENCES), expectation(SENTENCES))
    assert (
        isinstance(embed(CheckedEncoder(again), SENTENCES, store=tmp_path).matrix, np.memmap) and not again.calls
    )
    with pytest.raises(UserError):  # another dimension
        embed(CheckedEncoder(Recorder(dimension=5)), ["new"], store=tmp_path)


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    embed(CheckedEncoder(Recorder()), SENTENCES, store=tmp_path)
    os.truncate(tmp_path / ROWS, 140)
    with pytest.raises(UserError) as error:
        embed(CheckedEncoder(Recorder()), SENTENCES, store=tmp_path)
    assert error.value.key == str(tmp_path)


def test_a_full_disk_is_one_line_and_the_store_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed(CheckedEncoder(Recorder()), SENTENCES[:2], store=tmp_path)
    with monkeypatch.context() as patch, pytest.raises(UserError) as error:
        patch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(errno.ENOSPC, "full")), raising=False)
        embed(CheckedEncoder(Recorder()), SENTENCES, store=tmp_path)
    assert error.value.key == str(tmp_path) and not (tmp_path / "new.npy").exists()
    again = Recorder()
    embed(CheckedEncoder(again), SENTENCES[:2], store=tmp_path)
    assert not again.calls


def test_lists_of_tensors_are_taken() -> None:
    encoder = CheckedEncoder(lambda sentences: [*torch.tensor(expectation(sentences)).bfloat16().requires_grad_()])
    np.testing.assert_allclose(embed(encoder, SENTENCES).rows(SENTENCES), expectation(SENTENCES), rtol=1e-2)


@pytest.mark.parametrize(
    "convert",
    [
        lambda rows: [row[: 1 + place].tolist() for place, row in enumerate(rows)],
        lambda rows: np.zeros((len(rows), len(rows))),
        lambda rows: np.full_like(rows, np.nan),
    ],
    ids=["ragged lists", "dimension of the batch", "NaN"],
)
def test_anything_else_is_one_line(convert: Callable[[np.ndarray], Any]) -> None:
    with pytest.raises(UserError) as error:
        embed(CheckedEncoder(lambda sentences: convert(expectation(sentences)), 4), SENTENCES)
    assert error.value.key == "encode" and "\n" not in str(error.value)


TASKS = {"one": ["a", "a b", "a b c d e f"], "two": ["a b", "a b c d", "x"]}


def pad_to_longest(sentences: list[str]) -> np.ndarray:
    """Returns vectors that depend on the longest sentence of a call."""
    return expectation(sentences) + 0.1 * max(map(len, sentences))


def test_tasks_share_vectors_only_if_these_do_not_depend_on_others(tmp_path: Path) -> None:
    function, shares = Recorder(), list[float]()
    vectors = embed_tasks(CheckedEncoder(function), TASKS)
    assert vectors["one"] is vectors["two"] and max(map(len, function.calls)) == 5
    assert {*function.sentences} == {sentence for texts in TASKS.values() for sentence in texts}
    both = embed_tasks(CheckedEncoder(pad_to_longest), TASKS, store=tmp_path, progress=shares.append)
    assert shares == [1, 1]
    for task, texts in TASKS.items():
        alone = embed_tasks(CheckedEncoder(pad_to_longest), {task: texts})[task]
        np.testing.assert_array_equal(both[task].rows(texts), alone.rows(texts))
    assert (both["one"].rows(["a b"]) != both["two"].rows(["a b"])).all()
