"""The tokenizer that is trained on a corpus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tokenizer as module
from data.errors import UserError
from data.sources.base import normalise
from data.tokenizer import corpus_tokenizer, is_byte_level, plain_backend, train_bpe
from tests.data.samples import FISH, document, tokenizer

TOKENIZER = tokenizer()


def test_special_tokens_have_fixed_ids_and_wrap_a_text() -> None:
    assert TOKENIZER.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 4]
    assert TOKENIZER.mask_token_id == 4 and TOKENIZER.pad_token_id == 1
    assert TOKENIZER("the model").input_ids == [0, *TOKENIZER("the model", add_special_tokens=False).input_ids, 2]
    assert TOKENIZER.model_max_length == 512
    assert len(TOKENIZER) == 320


def test_a_word_has_one_id_wherever_it_stands() -> None:
    first = TOKENIZER("model", add_special_tokens=False).input_ids
    assert TOKENIZER("the model", add_special_tokens=False).input_ids[-len(first) :] == first


@given(st.text())
def test_decoding_restores_the_text(text: str) -> None:
    text = normalise(text)
    ids = plain_backend(TOKENIZER).encode(text, add_special_tokens=False).ids
    assert str(TOKENIZER.decode(ids)).removeprefix(" ") == text


def test_special_tokens_in_a_text_are_text() -> None:
    backend = plain_backend(TOKENIZER)
    ids = backend.encode("the <mask> of </s><pad>", add_special_tokens=False).ids
    assert min(ids) > 4
    assert str(TOKENIZER.decode(ids)).strip() == "the <mask> of </s><pad>"


def test_plain_backend_does_not_change_the_tokenizer() -> None:
    other = tokenizer()
    other.backend_tokenizer.enable_truncation(3)
    other.backend_tokenizer.enable_padding(length=9)
    assert len(plain_backend(other).encode("the", add_special_tokens=False)) == 1
    assert len(plain_backend(other).encode("the model learns sentence vectors", add_special_tokens=False)) > 3
    assert other.backend_tokenizer.truncation is not None
    assert is_byte_level(plain_backend(other))


def test_training_is_deterministic_and_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokenizer().backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()
    monkeypatch.setattr(module, "SAMPLE_BYTES", 1000)
    texts = iter([document(i) for i in range(50)])
    train_bpe(texts, vocab_size=300)
    assert 40 < len(list(texts)) < 50


def test_refusals() -> None:
    with pytest.raises(UserError):
        train_bpe([], vocab_size=300)


def test_a_corpus_with_an_id_is_read_once(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        yield from FISH

    first = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    again = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "fish")
    assert len(reads) == 1
    assert first.get_vocab() == again.get_vocab()
    other = corpus_tokenizer(texts, 300, 64, tmp_path, lambda: "birds")
    assert len(reads) == 2 and other.get_vocab() == first.get_vocab()


def test_a_corpus_without_an_id_is_identified_by_its_text(tmp_path: Path) -> None:
    corpus_tokenizer(lambda: FISH, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: FISH, 300, 64, tmp_path, None)
    corpus_tokenizer(lambda: FISH[1:], 300, 64, tmp_path, None)
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_two_processes_at_once_train_one_tokenizer(tmp_path: Path) -> None:
    reads = []

    def texts() -> Iterator[str]:
        reads.append(1)
        time.sleep(0.2)
        yield from FISH

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(corpus_tokenizer, texts, 300, 64, tmp_path, lambda: "fish") for _ in range(3)]
        vocabularies = [future.result().get_vocab() for future in futures]
    assert len(reads) == 1 and vocabularies[0] == vocabularies[1] == vocabularies[2]


def test_another_version_of_the_training_gives_another_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus_tokenizer(lambda: FISH, 300, 64, tmp_path, lambda: "fish")
    monkeypatch.setattr("data.tokenizer.VERSION", "next")
    corpus_tokenizer(lambda: FISH, 300, 64, tmp_path, lambda: "fish")
    assert len([path for path in tmp_path.glob("bpe-*") if path.is_dir()]) == 2


def test_the_corpus_id_is_computed_only_with_a_cache() -> None:
    corpus_tokenizer(
        lambda: FISH, 300, 64, None, lambda: pytest.fail("The corpus id is needed only with a cache.")
    )
