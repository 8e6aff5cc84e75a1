"""Tokenising chunks of text: leading blanks, sentences, case, worker processes, reported speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from data import tokenising
from data.tokenising import PARAGRAPHS, Rate, Tokenise, plain_tokenise
from tests.data.samples import tokenizer

TOKENIZER = tokenizer()


def ids(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False).input_ids


def test_each_text_is_one_unit_with_a_leading_blank() -> None:
    tokenise, vocab_size = plain_tokenise(TOKENIZER)
    rows = tokenise(tokenise.open(), ["the model", "", "learns <s>"])
    assert vocab_size == 320 and rows.sentences is None and rows.ids.dtype == np.uint16
    assert rows.lengths.tolist() == [len(ids(" the model")), 1, len(ids(" learns <")) + len(ids("s>"))]
    assert rows.ids[: rows.lengths[0]].tolist() == ids(" the model")


def test_paragraphs_are_split_into_sentences_that_name_their_text() -> None:
    tokenise = Tokenise(TOKENIZER.backend_tokenizer.to_str(), True, np.dtype("<u2"), True, True, str.split)
    rows = tokenise(tokenise.open(), [f"One two{PARAGRAPHS}THREE", "two"])
    assert rows.sentences is not None
    assert rows.sentences["document"].tolist() == [0, 0, 0, 1] and rows.sentences["words"].tolist() == [1] * 4
    one, two, three, again = rows.sentences["text"].tolist()
    assert two == again and len({one, two, three}) == 3
    assert rows.ids.tolist() == ids(" one") + ids(" two") + ids(" three") + ids(" two")


@pytest.mark.parametrize(
    ("split", "least"), [(None, tokenising.SMALL_CHUNKS), (str.splitlines, tokenising.SMALL_CHUNKS_SPLIT)]
)
def test_processes_are_started_only_for_large_corpora(
    monkeypatch: pytest.MonkeyPatch, split: Callable[[str], list[str]] | None, least: int
) -> None:
    chunk_counts: list[int] = []

    def in_processes(chunks: Iterator[tokenising.Chunk], *_: Any) -> Iterator[tokenising.Tokenised]:
        chunk_counts.append(len(list(chunks)))
        return iter(())

    monkeypatch.setattr(tokenising, "_in_processes", in_processes)
    monkeypatch.setattr(tokenising.os, "sched_getaffinity", lambda _: range(4), raising=False)
    tokenise = tokenising.Tokenise(TOKENIZER.backend_tokenizer.to_str(), True, np.dtype("<u2"), split=split)
    small = [tokenising.Chunk(["text"])] * (least - 1)
    assert len(list(tokenising.tokenised(small, tokenise, None))) == len(small) and not chunk_counts
    list(tokenising.tokenised([tokenising.Chunk(["text"])] * least, tokenise, None))
    assert chunk_counts == [least]


def test_the_requested_number_of_processes_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    pool_sizes: list[int] = []

    class Pool(tokenising.ProcessPoolExecutor):
        def __init__(self, workers: int, *args: Any, **options: Any) -> None:
            pool_sizes.append(workers)
            super().__init__(workers, *args, **options)

    monkeypatch.setattr(tokenising, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(tokenising, "SMALL_CHUNKS", 2)
    monkeypatch.setattr(tokenising, "cores", lambda: 2)
    tokenise, _ = plain_tokenise(TOKENIZER)
    chunks = [tokenising.Chunk([f"the model {i}", "learns"]) for i in range(9)]
    found = [
        [rows.ids.tolist() for _, rows in tokenising.tokenised(chunks, tokenise, workers)]
        for workers in (0, 1, 2, None)
    ]
    assert pool_sizes == [1, 2, 2] and found[1:] == [found[0]] * 3


def test_speed_and_time_left_count_what_this_process_did(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(tokenising.time, "monotonic", lambda: now[0])
    rate = Rate(1000, 100_000)  # documents and tokens of an earlier process
    reports = []
    for seconds, documents, share in ((1.0, 1500, 0.3), (2.0, 2000, 0.4), (2.0, 2000, None)):
        now[0] = seconds
        reports.append(rate(documents, 100 * documents, share))
    speed = "500 documents and 50,000 tokens a second"
    assert reports == [speed, f"{speed}, about 0:00:06 left in all", speed]
