"""The word vocabulary: splitting into words, the words with an id, special tokens written in a text."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data.errors import UserError
from data.tokenizer import is_byte_level, plain_backend, train_words, word_separator
from tests.real_data import suite_data

TEXTS = ["the cat sat on the mat .", "The dog did n't sit .", "a cat , a dog", "<s> <s> <unk> <mask> </s> <pad>"]


def train(texts: list[str], vocab_size: int = 1000, min_count: int = 1) -> PreTrainedTokenizerFast:
    return train_words(texts, vocab_size=vocab_size, min_count=min_count, max_length=64)


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
    assert words(raw) == tokenised.split(" ") and word_separator()(raw) == tokenised
    assert words(tokenised) == tokenised.split(" ")


@settings(max_examples=300)
@given(st.text(alphabet="abdmnostDNT019 '’.,-–…\"`&/:%<>_é", max_size=30))
def test_no_character_is_lost_and_words_are_split_the_same_again(text: str) -> None:
    found = words(text)
    expected = text.replace("’", "'").replace(" ", "")
    assert "".join(found) == expected and all(found)
    assert words(" ".join(found)) == found


def test_special_tokens_are_first_and_never_added() -> None:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert TOKENIZER.convert_ids_to_tokens(list(range(5))) == special
    assert (TOKENIZER.pad_token_id, TOKENIZER.unk_token_id, TOKENIZER.mask_token_id) == (1, 3, 4)
    assert TOKENIZER.decode(TOKENIZER("the zebra").input_ids) == "the <unk>"
    assert TOKENIZER.num_special_tokens_to_add() == 0 and not is_byte_level(plain_backend(TOKENIZER))


WORDS = st.lists(st.sampled_from(["the", "The", "cat", "dog", "n't", ".", "b", "a"]), min_size=1, max_size=40)


@settings(max_examples=30)
@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(6, 14), st.integers(1, 3))
def test_words_are_ordered_by_falling_count(texts: list[list[str]], vocab_size: int, min_count: int) -> None:
    counts = Counter(word for text in texts for word in text)
    expected = sorted(
        (word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word)
    )
    lines = [" ".join(text) for text in texts]
    if not expected:
        with pytest.raises(UserError):
            train(lines, vocab_size=vocab_size, min_count=min_count)
        return
    tokenizer = train(lines, vocab_size=vocab_size, min_count=min_count)
    assert tokenizer.convert_ids_to_tokens(list(range(5, len(tokenizer)))) == expected[: vocab_size - 5]
    assert train(lines[::-1], vocab_size=vocab_size, min_count=min_count).get_vocab() == tokenizer.get_vocab()


def test_the_same_texts_give_the_same_tokenizer() -> None:
    assert train(TEXTS).backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()


def test_special_tokens_in_a_text_are_text() -> None:
    assert {"<", ">", "s", "mask"} <= set(TOKENIZER.get_vocab())
    backend = plain_backend(TOKENIZER)
    encoding = backend.encode("<s> the <mask>", add_special_tokens=False)
    assert encoding.tokens == ["<", "s", ">", "the", "<", "mask", ">"] and min(encoding.ids) > 4
    # Without plain_backend they are special tokens.
    assert TOKENIZER("<s> the <unk>").input_ids == [0, TOKENIZER.get_vocab()["the"], 3]


def test_lower_casing_applies_to_training_and_text() -> None:
    cased = TOKENIZER("The DOG").input_ids
    assert cased[1] == TOKENIZER.unk_token_id != cased[0] != TOKENIZER.convert_tokens_to_ids("the")
    lower = train_words(TEXTS, vocab_size=100, min_count=1, lowercase=True, max_length=64)
    assert lower("The DOG Didn't").input_ids == lower("the dog did n't").input_ids
    assert "The" not in lower.get_vocab() and lower("The").input_ids == [lower.get_vocab()["the"]]


def test_a_saved_vocabulary_is_read_back(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The cat didn’t sit <mask> zebra"
    assert loaded(text).input_ids == TOKENIZER(text).input_ids
    assert loaded.backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()
    assert loaded.model_max_length == 64 and loaded.pad_token_id == 1


def test_refusals() -> None:
    for texts in ([], [""]):
        with pytest.raises(UserError):
            train(texts)


def test_words_of_glove_are_found_in_real_prose() -> None:
    with gzip.open(suite_data("embeddings/glove.100d.10k.txt.gz"), "rt", encoding="utf-8") as lines:
        glove = {line.split(" ", 1)[0] for line in lines}
    assert sum(words(word) == [word] for word in glove) > 0.997 * len(glove)
    with gzip.open(suite_data("corpora/standardebooks") / "shard-2.jsonl.gz", "rt", encoding="utf-8") as lines:
        prose = [json.loads(line)["text"].lower() for line in islice(lines, 10)]

    def share_in_glove(counts: Counter[str]) -> float:
        return sum(counts[word] for word in counts.keys() & glove) / counts.total()

    split_into_words = share_in_glove(Counter(word for text in prose for word in words(text)))
    split_at_blanks = share_in_glove(Counter(word for text in prose for word in text.split()))
    assert split_into_words > 0.9 > split_at_blanks
