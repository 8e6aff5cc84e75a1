"""Special tokens around one text and around pairs, as the tokenizers of transformers put them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import encoders
from data.token_format import TokenFormat, separator
from tests.encoders.models import minilm, tiny

FIRST, SECOND = "the cat sat on the mat", "a dog by the river"
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *f"{FIRST} {SECOND} b".split()]


def words(**special: str) -> Any:
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys(WORDS))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def content(tokenizer: Any, text: str) -> np.ndarray:
    return np.array(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_a_pair_is_wrapped_like_berts() -> None:
    tokenizer = words(cls_token="[CLS]", sep_token="[SEP]")
    tokenizer.backend_tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    form = TokenFormat((1,), (2,), 0, None, len(tokenizer), 20, frozenset(), separator(tokenizer))
    assert form.middle == (2,) and form.max_pair == 17
    wanted = tokenizer(FIRST, SECOND)
    ids, types = form.wrap_pair(content(tokenizer, FIRST), content(tokenizer, SECOND))
    assert ids.tolist() == wanted["input_ids"] and ids.dtype == types.dtype == np.int64
    assert types.tolist() == [0] * 8 + [1] * 6


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_an_encoder_wraps_a_pair_as_its_tokenizer_does(family: str) -> None:
    encoder = encoders.load(minilm()) if family == "bert" else tiny()
    tokenizer = encoder.tokenizer
    wanted = tokenizer(FIRST, SECOND, return_token_type_ids=True)
    ids, types = encoder.format.wrap_pair(content(tokenizer, FIRST), content(tokenizer, SECOND))
    assert ids.tolist() == wanted["input_ids"]
    assert len(encoder.format.middle) == (1 if family == "bert" else 2)
    if family == "bert":
        assert types.tolist() == wanted["token_type_ids"]


def test_a_tokenizer_without_a_pair_template_puts_its_end_token_between() -> None:
    assert separator(words(eos_token="[SEP]")) == (2,)
    assert separator(words(eos_token="[SEP]", sep_token="[CLS]")) == (1,)
    assert separator(words()) == ()


def test_format_wraps_and_cuts_at_the_end() -> None:
    form = TokenFormat((0,), (2,), 1, 4, 10, 5, frozenset({0, 1, 2, 4}))
    assert form.max_content == 3
    assert form.wrap(np.array([5, 6, 7, 8])).tolist() == [0, 5, 6, 7, 2]
