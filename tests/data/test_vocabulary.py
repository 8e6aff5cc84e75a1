"""The word vocabulary: splitting into words, and the words with an id."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data.errors import UserError
from data.tokenizer import is_byte_level, plain_backend, train_words

TEXTS = ["the cat sat on the mat .", "The dog did n't sit .", "a cat , a dog", "<s> <s> <unk> <mask> </s> <pad>"]


def train(texts: list[str], vocab_size: int = 1000, min_count: int = 1) -> PreTrainedTokenizerFast:
    return train_words(texts, vocab_size=vocab_size, min_count=min_count)


TOKENIZER = train(TEXTS)


def words(text: str, tokenizer: PreTrainedTokenizerFast = TOKENIZER) -> list[str]:
    backend = tokenizer.backend_tokenizer
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


@pytest.mark.parametrize(
    ("raw", "tokenised"),
    [
        ("I don't know, can't you?", "I do n't know , ca n't you ?"),
        ("They’ll say it’s won’t", "They 'll say it 's wo n't"),
        ("WE'RE NOT, DON'T", "WE 'RE NOT , DO N'T"),
        ("he'd've", "he 'd 've"),
        ("don 't Isn 't in 't", "do n't Is n't in ' t"),
        ("Spain 't (wouldn 't", "Spain ' t ( would n't"),
        ('"Wait..." (she said)--', '" Wait ... " ( she said ) --'),
        ("``so-called'' re-election", "`` so-called '' re-election"),
        ("the dogs' 'good' o'clock", "the dogs ' ' good ' o'clock"),
        ("Mr. J. Smith of the U.S. left. He", "Mr. J. Smith of the U.S. left . He"),
        ("At 9:30 a.m. 1,000.50 or 3.5% on 9/11.", "At 9:30 a.m. 1,000.50 or 3.5 % on 9/11 ."),
        ("$5 the 1990s, AT&T's amazon.com.", "$ 5 the 1990s , AT&T 's amazon.com ."),
        ("It was I. The plan", "It was I . The plan"),
        ("-LRB- x -rrb- well-being", "-LRB- x -rrb- well-being"),
        ("and/or end.The a_b", "and / or end . The a _ b"),
        ("the '90s's- b's-d don't-", "the ' 90s 's - b's-d do n't -"),
        ("café naïve 日本語", "café naïve 日本語"),
    ],
)
def test_raw_and_tokenised_text_have_the_same_words(raw: str, tokenised: str) -> None:
    assert words(raw) == tokenised.split(" ")
    assert words(tokenised) == tokenised.split(" ")


@settings(max_examples=300)
@given(st.text(alphabet="abdmnostDNT019 '’.,-–…\"`&/:%<>_é", max_size=30))
def test_no_character_is_lost_and_words_are_split_the_same_again(text: str) -> None:
    pieces = words(text)
    assert "".join(pieces) == text.replace("’", "'").replace(" ", "") and all(pieces)
    assert words(" ".join(pieces)) == pieces


def test_special_tokens_are_first_and_never_added() -> None:
    assert TOKENIZER.decode(list(range(5))) == "<s> <pad> </s> <unk> <mask>"
    assert (TOKENIZER.pad_token_id, TOKENIZER.unk_token_id, TOKENIZER.mask_token_id) == (1, 3, 4)
    assert TOKENIZER.decode(TOKENIZER("the zebra").input_ids) == "the <unk>"
    assert TOKENIZER.num_special_tokens_to_add() == 0 and not is_byte_level(plain_backend(TOKENIZER))


WORDS = st.lists(st.sampled_from(["the", "The", "cat", "dog", "n't", ".", "b", "a"]), min_size=1, max_size=40)


@settings(max_examples=30)
@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(6, 14), st.integers(1, 3))
def test_words_are_ordered_by_falling_count(texts: list[list[str]], vocab_size: int, min_count: int) -> None:
    counts = Counter(word for text in texts for word in text)
    frequent = sorted(
        (word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word)
    )
    lines = [" ".join(text) for text in texts]
    if not frequent:
        with pytest.raises(UserError):
            train(lines, vocab_size, min_count)
        return
    tokenizer = train(lines, vocab_size, min_count)
    assert tokenizer.convert_ids_to_tokens(list(range(5, len(tokenizer)))) == frequent[: vocab_size - 5]
    assert train(lines[::-1], vocab_size, min_count).get_vocab() == tokenizer.get_vocab()
