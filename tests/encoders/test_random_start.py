"""A kept tokenizer is found by the name of its texts, without reading them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import transformers

from encoders import models
from encoders.random_start import begin_with_waves, configuration, corpus_tokenizer, corpus_vocabulary

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


@pytest.mark.parametrize("family", ["roberta", "bert", "distilbert", "albert"])
def test_sinusoidal_positions_are_those_of_the_paper(family: str) -> None:
    """PE(p, 2i) = sin(p / 10000^(2i / d)), PE(p, 2i + 1) the cosine, here in two halves and scaled."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    tokenizer = corpus_tokenizer(lambda: TEXTS, 300, 64, None, None)
    width = 4 if family == "albert" else 8
    own = {"embedding_size": 4} if family == "albert" else {}
    config = configuration({"model_type": family, **sizes, **own}, tokenizer)
    model: Any = models.untrained(config, {})
    begin_with_waves(model)
    table = model.base_model.embeddings.position_embeddings.weight
    for place in (0, 1, 7):
        angles = [place / 10_000 ** (2 * i / width) for i in range(width // 2)]
        expected = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
        scaled = [0.02 * math.sqrt(2) * value for value in expected]
        assert table[place].tolist() == pytest.approx(scaled, abs=1e-6)


def test_a_family_without_positions_is_refused() -> None:
    config = transformers.T5Config(vocab_size=300, d_model=8, num_layers=1, num_heads=2, d_kv=4, d_ff=8)
    with pytest.raises(ValueError, match=r"encoder.positions: a t5 has no position embeddings"):
        begin_with_waves(transformers.T5EncoderModel(config))
