"""Special tokens around single texts and pairs, compared with the tokenizers of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from data.token_format import TokenFormat, separator
from tests.encoders.models import tiny

FIRST, SECOND = "the cat sat on the mat", "a dog by the river"
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *f"{FIRST} {SECOND} b".split()]


def word_tokenizer(**special: str) -> Any:
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(WORDS))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def content_ids(tokenizer: Any, text: str) -> np.ndarray:
    return np.array(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_a_pair_is_wrapped_like_berts() -> None:
    tokenizer = word_tokenizer(cls_token="[CLS]", sep_token="[SEP]")
    tokenizer.backend_tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    token_format = TokenFormat((1,), (2,), 0, None, len(tokenizer), 20, frozenset(), separator(tokenizer))
    assert token_format.middle == (2,) and token_format.max_pair == 17
    ids, types = token_format.wrap_pair(content_ids(tokenizer, FIRST), content_ids(tokenizer, SECOND))
    assert ids.tolist() == tokenizer(FIRST, SECOND)["input_ids"] and types.tolist() == [0] * 8 + [1] * 6


def test_a_pair_is_wrapped_like_robertas() -> None:
    tokenizer, token_format = tiny().tokenizer, tiny().format
    ids, _ = token_format.wrap_pair(content_ids(tokenizer, FIRST), content_ids(tokenizer, SECOND))
    assert ids.tolist() == tokenizer(FIRST, SECOND)["input_ids"] and len(token_format.middle) == 2


def test_a_tokenizer_without_a_pair_template_puts_its_end_token_between() -> None:
    assert separator(word_tokenizer(eos_token="[SEP]")) == (2,)
    assert separator(word_tokenizer(eos_token="[SEP]", sep_token="[CLS]")) == (1,)
    assert separator(word_tokenizer()) == ()


def test_format_wraps_and_cuts_at_the_end() -> None:
    token_format = TokenFormat((0,), (2,), 1, 4, 10, 5, frozenset({0, 1, 2, 4}))
    assert token_format.max_content == 3
    assert token_format.wrap(np.array([5, 6, 7, 8])).tolist() == [0, 5, 6, 7, 2]
