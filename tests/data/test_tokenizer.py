"""The tokenizer that is trained on a corpus."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data import tokenizer as module
from data.sources.base import normalise
from data.tokenizer import load_or_train, plain_backend, train_words
from tests.data.samples import FISH, tokenizer

TOKENIZER = tokenizer()


def test_special_tokens_have_fixed_ids_and_wrap_a_text() -> None:
    assert TOKENIZER.decode(list(range(5))) == "<s><pad></s><unk><mask>"
    assert TOKENIZER.mask_token_id == 4 and TOKENIZER.pad_token_id == 1
    assert TOKENIZER("the model").input_ids == [0, *TOKENIZER("the model", add_special_tokens=False).input_ids, 2]
    assert len(TOKENIZER) == 320


@given(st.text())
def test_decoding_restores_the_text(text: str) -> None:
    text = normalise(text)
    ids = plain_backend(TOKENIZER).encode(text, add_special_tokens=False).ids
    assert str(TOKENIZER.decode(ids)).removeprefix(" ") == text


WRITTEN = "the <mask> of </s><pad>"


@pytest.mark.parametrize(
    "tokenizer",
    [TOKENIZER, train_words([WRITTEN], vocab_size=20, min_count=1)],
    ids=["BPE", "words"],
)
def test_special_tokens_in_a_text_are_text(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = plain_backend(tokenizer).encode(WRITTEN, add_special_tokens=False).ids
    assert min(ids) > 4 and str(tokenizer.decode(ids)).replace(" ", "") == WRITTEN.replace(" ", "")
    assert {2, 4} <= {*tokenizer(WRITTEN, add_special_tokens=False).input_ids}  # without plain_backend


def test_training_is_deterministic() -> None:
    assert tokenizer().backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()


def test_one_cached_tokenizer_serves_all_who_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = []

    def train_bpe(texts: list[str], **arguments: int) -> PreTrainedTokenizerFast:
        trainings.append(arguments)
        time.sleep(0.2)
        return module.train_bpe(texts, **arguments)

    def load(vocab_size: int) -> dict[str, int]:
        return load_or_train((train_bpe, {"vocab_size": vocab_size}), lambda: FISH, tmp_path, "fish").get_vocab()

    with ThreadPoolExecutor(2) as pool:
        first, second, _ = pool.map(load, [300, 300, 301])
    assert len(trainings) == 2 and first == second
    monkeypatch.setattr(module, "VERSION", "next")
    assert load(300) == first and len(trainings) == 3
