"""A kept tokenizer is found by the name of its texts, without reading them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from encoders.random_start import corpus_tokenizer, corpus_vocabulary

TEXTS = ["one fish two fish", "red fish blue fish", "this one has a little star"] * 20


def test_a_named_corpus_is_read_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from TEXTS

    first = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    again = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    assert len(reads) == 1
    assert first.get_vocab() == again.get_vocab()
    other = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "birds")
    assert len(reads) == 2 and other.get_vocab() == first.get_vocab()


def test_a_nameless_corpus_is_known_by_its_text(tmp_path: Path) -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS[1:], 300, 64, tmp_path, None)
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_two_at_once_train_it_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        time.sleep(0.2)
        yield from TEXTS

    with ThreadPoolExecutor(3) as pool:
        wanted = [pool.submit(corpus_tokenizer, texts, 300, 64, tmp_path, lambda: "fish") for _ in range(3)]
        vocabularies = [tokenizer.result().get_vocab() for tokenizer in wanted]
    assert len(reads) == 1 and vocabularies[0] == vocabularies[1] == vocabularies[2]


def test_another_version_of_the_training_is_another_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, lambda: "fish")
    monkeypatch.setattr("encoders.random_start.VERSION", "next")
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_the_texts_are_named_only_where_a_name_is_needed() -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, None, lambda: pytest.fail("nothing is kept"))


def test_words_are_kept_by_all_that_makes_them(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from TEXTS

    def words(size: int, count: int, lowercase: bool, name: str = "fish") -> dict[str, int]:
        return corpus_vocabulary(texts, size, count, lowercase, 64, tmp_path, lambda: name).get_vocab()

    first = words(50, 1, False)
    assert words(50, 1, False) == first and len(reads) == 1 and "fish" in first and len(first) == 15
    others = [words(8, 1, False), words(50, 41, False), words(50, 1, True), words(50, 1, False, name="birds")]
    assert len(reads) == 5 and [len(other) for other in others] == [8, 6, 15, 15]
    corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 6
    assert corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, None, None).get_vocab() == first


def test_another_version_of_the_vocabulary_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, tmp_path, lambda: "fish")
    monkeypatch.setattr("data.vocabulary.VERSION", "next")
    corpus_vocabulary(lambda: TEXTS, 50, 1, False, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.glob("words-*") if path.is_dir()]) == 2
