r"""A vocabulary of whole words, in a Hugging Face fast tokenizer, for encoders that start from word vectors.

A word's id is its rank by count in the corpus, after the special tokens; whatever is rarer than ``min_count``
or beyond ``vocab_size`` is "<unk>".

``WORDS`` defines a word. It separates raw prose and text that is tokenised already (the Penn Treebank's way, as
SentEval's files, the Billion Word benchmark and GloVe's vocabulary have it: Pennington et al. 2014, section 4.2)
into the same words. Share of running words (lower-cased) that are among 10,000 frequent ones of GloVe, and how
many of these occur (benchmarks/word_coverage.py):

    text                           WORDS             white space       transformers' BertPreTokenizer
    raw: books                     90.2 %, 7,833     76.4 %, 7,490     90.3 %, 7,787
    tokenised: news                91.0 %, 9,705     90.8 %, 9,709     92.1 %, 9,570
    GloVe's words that stay whole  9,973             10,000            9,818

White space alone fails on raw prose. BertPreTokenizer finds more known pieces because it makes more of them: it
cuts "n't", "u.s.", "1,000" and "long-term" apart, which are words of GloVe's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from data.errors import UserError
from data.tokenizer import SPECIAL, cached_tokenizer, fast_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VERSION = "2"  # of ``train_word_level``: raise it where the same texts would give another tokenizer
MASK = "<mask>"

_ENDS = r"(?!-?[\p{L}\p{N}])"
_NOT = rf"[nN]'[tT]{_ENDS}"
_AUXILIARIES = "do|does|did|is|are|was|were|has|have|had|ca|wo|would|could|should|must|need|ai"
_BEFORE_NOT = re.sub(r"(\w)(\w+)", lambda word: rf"\b[{word[1].upper()}{word[1]}]{word[2]}n", _AUXILIARIES)
_PARTED_NOT = rf"(?<={_BEFORE_NOT}) (?='t{_ENDS})"  # the blank in the Billion Word's "don 't", not in "Spain 't"
_CLITIC = rf"'(?:[sSmMdD]|[lL][lL]|[rR][eE]|[vV][eE]){_ENDS}"
_ABBREVIATIONS = (
    "mr|mrs|ms|dr|st|jr|sr|prof|rev|hon|gov|sen|rep|gen|maj|col|lt|capt|sgt|inc|corp|co|ltd|bros|vs|etc|"
    "jan|feb|aug|sept|oct|nov|dec|calif|conn|fla"
)
WORDS = "|".join(
    (
        _NOT,  # do|n't, ca|n't
        _CLITIC,
        r"\p{L}\.(?:\p{L}(?:\.\p{L})*\.?(?![\p{L}\p{N}])|(?<![iI]\.)(?=\s\p{L}))",  # u.s., e.g.; initials
        # The look-ahead changes no match, and is much faster where there is no abbreviation.
        rf"(?=\p{{L}}{{2,5}}\.)(?i:{_ABBREVIATIONS})\.(?![\p{{L}}\p{{N}}])",
        # Letters and digits, and what joins them: long-term, o'brien, 1,000, 3.5, 9/11, amazon.com, at&t
        rf"[\p{{L}}\p{{N}}](?:(?!{_NOT})[\p{{L}}\p{{M}}\p{{N}}]|(?:-(?=[\p{{L}}\p{{N}}])|(?<=\p{{N}})[.,:/](?=\p{{N}})"
        rf"|(?<=\p{{Ll}})\.(?=\p{{Ll}})|&(?=\p{{L}})|(?!{_CLITIC})'(?=\p{{L}}))(?!{_NOT}))*",
        r"-(?i:[lr][rcs]b)-",  # the Treebank's brackets
        r"\.{2,}|-{2,}|``|''",
        r"\S",
    )
)


def train_word_level(
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_count: int,
    lowercase: bool = False,
    symbols: bool = False,
    max_length: int,
) -> PreTrainedTokenizerFast:
    """Counts the words of all ``texts`` and makes a tokenizer of the frequent ones.

    Memory grows only with the number of different words. The same texts give the same tokenizer: words of the
    same count are in the order of their characters. It reads a curly apostrophe as a straight one, the Billion
    Word's "don 't" as "don't", and adds no special tokens. "<s>" in the texts is three marks, here and in a
    token store (data.store). The tokenizer itself, as ``encode`` calls it, takes it for the special token, like
    every fast tokenizer.

    Args:
        texts: raw or tokenised, normalised texts.
        vocab_size: largest number of ids, the five special tokens (0 to 4) included (``data.tokenizer.Words``).
        min_count: occurrences that a word needs.
        lowercase: whether words that differ only in case are one.
        symbols: whether only blanks separate words, for texts that are not prose ("(NP XX )NP", in trees).
        max_length: tokens of a sentence that the encoder reads.

    Raises:
        UserError: if there is no text, or no word in it is frequent enough.
    """
    special = [*SPECIAL.values(), MASK]
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL["unk_token"]))
    tokenizer.normalizer = normalizers.Sequence(
        [*([] if symbols else _normalizers()), *([normalizers.Lowercase()] if lowercase else [])]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if symbols else _split()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(_require_text(texts), trainer)
    if tokenizer.get_vocab_size() == len(special):
        raise UserError(f"no word of the text occurs {min_count:,} times", key="encoder.min_count")
    return fast_tokenizer(tokenizer, max_length, mask_token=AddedToken(MASK, special=True))


def corpus_vocabulary(
    texts: Callable[[], Iterable[str]],
    vocab_size: int,
    min_count: int,
    lowercase: bool,
    max_length: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
    *,
    symbols: bool = False,
) -> PreTrainedTokenizerFast:
    """Makes a tokenizer of the words of ``texts()``, or opens the one cached in ``cache``.

    ``cache`` and ``texts_key`` are those of ``data.tokenizer.corpus_tokenizer``, other arguments those of
    ``train_word_level``.

    Raises:
        UserError: if no word is frequent enough.
    """
    return cached_tokenizer(
        "words",
        (VERSION, f"{vocab_size} {min_count} {lowercase} {max_length}{' symbols' if symbols else ''}"),
        lambda: train_word_level(
            texts(),
            vocab_size=vocab_size,
            min_count=min_count,
            lowercase=lowercase,
            symbols=symbols,
            max_length=max_length,
        ),
        texts,
        texts_key,
        cache,
    )


def word_separator() -> Callable[[str], str]:
    """Returns a function that puts one blank between the words of a text: "I don't." becomes "I do n't ."."""
    normalizer, split = normalizers.Sequence(_normalizers()), _split()
    return lambda text: " ".join(word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)))


def _normalizers() -> list[normalizers.Normalizer]:
    return [normalizers.Replace("’", "'"), normalizers.Replace(Regex(_PARTED_NOT), "")]


def _split() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)


def _require_text(texts: Iterable[str]) -> Iterator[str]:
    empty = True
    for text in texts:
        empty = empty and not text
        yield text
    if empty:
        raise UserError("the training part has no text to count words in", key="corpus")
