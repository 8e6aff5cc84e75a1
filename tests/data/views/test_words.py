"""Words among tokens: where they begin in each kind of vocabulary, and their deletion."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from data.randomness import generator
from data.tokenizer import train_bpe, train_words
from data.views.words import delete_words, word_start_mask
from encoders.bag_of_words import word_tokenizer

TEXT = "The river-bank, they said, isn't far. Nobody knows rivers!"
WORD_PIECES = "[UNK] The they river ##s bank said far isn t No ##body know - , . ! '"
SENTENCE_PIECES = "▁The ▁river s - bank , ▁they ▁said ▁is n ' t ▁far . ! ▁No body ▁know"


def word_piece() -> PreTrainedTokenizerFast:
    vocabulary = {piece: number for number, piece in enumerate(WORD_PIECES.split())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def sentence_piece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in SENTENCE_PIECES.split()], 0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def words(tokenizer: Any, text: str = TEXT) -> str:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    begins = word_start_mask(tokenizer)[ids]
    begins[0] = True
    pieces = [tokenizer.decode(ids[a:b]) for a, b in pairwise([*np.flatnonzero(begins), len(ids)])]
    return " ".join(re.sub(" |▁|##", "", piece) for piece in pieces if piece.strip())


def test_words_of_each_kind_of_vocabulary() -> None:
    together = "The river -bank , they said , isn 't far . Nobody knows rivers !"
    assert words(train_bpe([TEXT] * 9, vocab_size=320)) == words(sentence_piece()) == together
    assert words(word_piece()) == together.replace("-", "- ").replace("'", "' ")


def test_typographic_punctuation_begins_a_word() -> None:
    text = "“Hello” he said—well, isn’t it «yes»"
    for corpus in (text, TEXT):
        assert words(train_bpe([corpus] * 9, vocab_size=400), text) == "“Hello ” he said —well , isn ’t it «yes »"


def test_in_a_word_vocabulary_every_token_begins_a_word() -> None:
    tokenizer = train_words([TEXT], vocab_size=99, min_count=1)
    assert word_start_mask(tokenizer).tolist() == [True] * len(tokenizer)
    bag = PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(["river", "▁", "a"], lowercase=False))
    assert word_start_mask(bag).tolist() == [True] * 3


@settings(max_examples=200)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.floats(0, 0.99), st.integers(0, 1000))
def test_kept_words_are_whole_and_in_order(sizes: list[int], share: float, seed: int) -> None:
    """All tokens differ, so that those left show which words were kept."""
    ends = np.cumsum(sizes)
    begins = np.zeros(int(ends[-1]), dtype=bool)
    begins[ends[:-1]] = True  # begins[0] stays False: the first token always begins a word
    tokens = np.arange(len(begins))
    left, sources = delete_words(tokens, begins, share, generator(seed))
    assert tokens[sources].tolist() == left.tolist()
    whole = [tokens[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert len(left) and left.tolist() == np.concatenate([word for word in whole if word[0] in left]).tolist()


def test_the_given_share_of_words_is_deleted_and_at_least_one_is_kept() -> None:
    begins, tokens = np.ones(50, dtype=bool), np.arange(50)
    counts = [len(delete_words(tokens, begins, 0.6, generator(seed)).tokens) for seed in range(400)]
    assert np.mean(counts) == pytest.approx(20, abs=0.7)  # four standard errors
    assert np.std(counts) == pytest.approx(np.sqrt(50 * 0.6 * 0.4), rel=0.15)  # as words are deleted independently
    short = [delete_words(np.arange(3), begins, 0.99, generator(seed)).tokens.tolist() for seed in range(300)]
    assert {row[0] for row in short if len(row) == 1} == {0, 1, 2} and all(short)
