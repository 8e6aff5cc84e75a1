"""Words among tokens: where they begin in each kind of vocabulary, and their deletion."""

from __future__ import annotations

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
from data.views.words import beginnings, delete_words
from encoders.bag_of_words import word_tokenizer

TEXT = "The river-bank, they said, isn't far. Nobody knows rivers!"


def word_piece() -> PreTrainedTokenizerFast:
    pieces = ["[UNK]", "The", "they", "river", "##s", "bank", "said", "far", "isn", "t", "No", "##body", "know"]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *"-,.!'"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def sentence_piece() -> PreTrainedTokenizerFast:
    pieces = ["▁The", "▁river", "s", "-", "bank", ",", "▁they", "▁said", "▁is", "n", "'", "t", "▁far", ".", "!"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in [*pieces, "▁No", "body", "▁know"]], 0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def words_of(tokenizer: Any) -> list[str]:
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    begins = beginnings(tokenizer)[ids]
    begins[0] = True
    tokens = tokenizer.convert_ids_to_tokens(ids)
    cuts = [*np.flatnonzero(begins), len(ids)]
    return ["".join(tokens[a:b]).strip("Ġ▁ ").replace("##", "") for a, b in pairwise(cuts)]


def test_words_of_each_kind_of_vocabulary() -> None:
    pieces = [
        "The",
        "river",
        "-bank",
        ",",
        "they",
        "said",
        ",",
        "isn",
        "'t",
        "far",
        ".",
        "Nobody",
        "knows",
        "rivers",
    ]
    assert words_of(train_bpe([TEXT] * 9, vocab_size=320)) == [*pieces, "!"]
    assert words_of(sentence_piece()) == [*pieces, "!"]
    apart = [part for piece in pieces for part in ([piece[0], piece[1:]] if piece in ("-bank", "'t") else [piece])]
    assert words_of(word_piece()) == [*apart, "!"]


@pytest.mark.parametrize("trained_on_text", [False, True], ids=["another text", "this text"])
def test_typographic_punctuation_begins_a_word(trained_on_text: bool) -> None:
    text = "“Hello” he said—well, isn’t it «yes»"
    tokenizer = train_bpe([text] * 9 if trained_on_text else [TEXT] * 9, vocab_size=400)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    begins = beginnings(tokenizer)[ids]
    begins[0] = True
    cuts = [*np.flatnonzero(begins), len(ids)]
    words = [str(tokenizer.decode(ids[a:b])).strip() for a, b in pairwise(cuts)]
    assert [word for word in words if word] == [
        "“Hello",
        "”",
        "he",
        "said",
        "—well",
        ",",
        "isn",
        "’t",
        "it",
        "«yes",
        "»",
    ]


def test_in_a_word_vocabulary_every_token_begins_a_word() -> None:
    words = train_words([TEXT], vocab_size=99, min_count=1, max_length=50)
    assert beginnings(words).all() and len(beginnings(words)) == len(words)
    bag = PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(["river", "▁", "a"], lowercase=False))
    assert beginnings(bag).tolist() == [True] * 3


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
    words = [tokens[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert len(left) and left.tolist() == np.concatenate([word for word in words if word[0] in left]).tolist()
    assert delete_words(tokens, begins, share, generator(seed)).tokens.tolist() == left.tolist()
    assert not begins[0] and tokens.tolist() == list(range(len(begins)))


def test_the_given_share_of_words_is_deleted_and_at_least_one_is_kept() -> None:
    begins, tokens = np.ones(50, dtype=bool), np.arange(50)
    left = [len(delete_words(tokens, begins, 0.6, generator(seed)).tokens) for seed in range(400)]
    assert np.mean(left) == pytest.approx(20, abs=0.7)  # four standard errors
    assert np.std(left) == pytest.approx(np.sqrt(50 * 0.6 * 0.4), rel=0.15)  # as words are deleted independently
    short = [delete_words(np.arange(3), begins, 0.99, generator(seed)).tokens.tolist() for seed in range(300)]
    assert {tuple(row) for row in short} == {(0,), (1,), (2,)} | {tuple(row) for row in short if len(row) > 1}
    assert delete_words(tokens, begins, 0.0, generator(0)).tokens.tolist() == tokens.tolist()
