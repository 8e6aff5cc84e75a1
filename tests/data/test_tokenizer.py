"""The tokenizer that is trained on a corpus."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data import tokenizer as module
from data.errors import UserError
from data.sources.base import normalise
from data.tokenizer import is_byte_level, load_or_train, load_tokenizer, plain_backend, train_bpe
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


def test_one_cached_tokenizer_serves_all_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def ask(kind: Literal["bpe", "words"] = "bpe", settings: str = "300", key: str = "fish") -> dict[str, int]:
        def train() -> PreTrainedTokenizerFast:
            trained.append(kind)
            time.sleep(0.2)
            return train_bpe(FISH, vocab_size=300, max_length=64)

        return load_or_train(kind, settings, train, tmp_path, key).get_vocab()

    with ThreadPoolExecutor(3) as pool:
        first, *others = [future.result() for future in [pool.submit(ask) for _ in range(3)]]
    assert trained == ["bpe"] and first == others[0] == others[1] == train_bpe(FISH, vocab_size=300).get_vocab()
    for number, arguments in enumerate([{"kind": "words"}, {"settings": "301"}, {"key": "birds"}, {}]):
        if not arguments:
            monkeypatch.setitem(module.VERSIONS, "bpe", "next")
        ask(**arguments)  # type: ignore[arg-type]
        assert len(trained) == 2 + number


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UserError):
            load_tokenizer(folder)
