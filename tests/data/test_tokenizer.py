"""The tokenizer that is trained on a corpus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tokenizer as module
from data.errors import UserError
from data.sources.base import normalise
from data.tokenizer import is_byte_level, plain_backend, train_bpe
from tests.data.samples import document, tokenizer

TOKENIZER = tokenizer()


def test_special_tokens_and_template() -> None:
    assert TOKENIZER.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, 4]
    assert TOKENIZER.mask_token_id == 4 and TOKENIZER.pad_token_id == 1
    assert TOKENIZER("the model").input_ids == [0, *TOKENIZER("the model", add_special_tokens=False).input_ids, 2]
    assert TOKENIZER.model_max_length == 512
    assert len(TOKENIZER) == 320


def test_a_word_has_one_id_wherever_it_stands() -> None:
    first = TOKENIZER("model", add_special_tokens=False).input_ids
    assert TOKENIZER("the model", add_special_tokens=False).input_ids[-len(first) :] == first


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    text = normalise(text)
    ids = plain_backend(TOKENIZER).encode(text, add_special_tokens=False).ids
    assert str(TOKENIZER.decode(ids)).removeprefix(" ") == text


def test_special_tokens_in_a_text_are_text() -> None:
    backend = plain_backend(TOKENIZER)
    ids = backend.encode("the <mask> of </s><pad>", add_special_tokens=False).ids
    assert min(ids) > 4
    assert str(TOKENIZER.decode(ids)).strip() == "the <mask> of </s><pad>"


def test_plain_backend_leaves_the_tokenizer_alone() -> None:
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
    read = iter([document(i) for i in range(50)])
    train_bpe(read, vocab_size=300)
    assert 40 < len(list(read)) < 50


def test_refusals() -> None:
    with pytest.raises(UserError, match="There is no text to train a tokenizer on"):
        train_bpe([], vocab_size=300)
