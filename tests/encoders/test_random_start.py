"""A kept tokenizer is found by the name of its texts, without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from encoders.random_start import corpus_tokenizer

TEXTS = ["one fish two fish", "red fish blue fish", "this one has a little star"] * 20


def test_a_named_corpus_is_read_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from TEXTS

    first = corpus_tokenizer(texts, 300, 64, tmp_path, "fish")
    again = corpus_tokenizer(texts, 300, 64, tmp_path, "fish")
    assert len(reads) == 1
    assert first.get_vocab() == again.get_vocab()
    other = corpus_tokenizer(texts, 300, 64, tmp_path, "birds")
    assert len(reads) == 2 and other.get_vocab() == first.get_vocab()


def test_a_nameless_corpus_is_known_by_its_text(tmp_path: Path) -> None:
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: TEXTS[1:], 300, 64, tmp_path, None)
    assert len(list(tmp_path.glob("bpe-*"))) == 2
