"""Chunks of text to token ids: leading blanks, sentences, case, and when processes are started for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from data import tokenising
from data.tokenising import PARAGRAPHS, Tokenise, plain_tokenise
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


def test_processes_are_only_started_for_large_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def in_processes(chunks: Iterator[tokenising.Chunk], *_: Any) -> Iterator[tokenising.Tokenised]:
        taken.append(len(list(chunks)))
        return iter(())

    monkeypatch.setattr(tokenising, "_in_processes", in_processes)
    monkeypatch.setattr(tokenising.os, "sched_getaffinity", lambda _: range(4), raising=False)
    tokenise = tokenising.Tokenise(TOKENIZER.backend_tokenizer.to_str(), True, np.dtype("<u2"))
    small = [tokenising.Chunk(["text"])] * (tokenising.SMALL_CHUNKS - 1)
    assert len(list(tokenising.tokenised(small, tokenise, None))) == len(small) and not taken
    list(tokenising.tokenised([*small, *small], tokenise, None))
    assert taken == [2 * len(small)]
