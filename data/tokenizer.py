"""Tokenizers for encoders that start from random weights: byte-level BPE and whole words, trained on a corpus.

BPE: Sennrich, Haddow and Birch (2016), section 3.2, over bytes as in Radford et al. (2019), section 2.2; special
tokens and template as RoBERTa's (Liu et al. 2019). Words: a word's id is its rank by count in the corpus, after
the special tokens; whatever is rarer than ``min_count`` or beyond ``vocab_size`` is "<unk>".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from data.errors import UserError, reading
from data.files import build_once
from data.sources.base import fingerprint
from data.vocabulary import PARTED_NOT, WORDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
START, PAD, END, _ = range(len(SPECIAL))  # their ids in every vocabulary of this module
MASK = "<mask>"
SAMPLE_BYTES = 20_000_000  # of text for BPE; more would change the merges little and take time in proportion
MOST_TOKENS = 10_000_000  # of a vocabulary
# Sizes of a vocabulary: of byte-level BPE, all bytes and <mask> included; of words, <mask> and one word included.
BytePairs = Annotated[int, Field(ge=256 + len(SPECIAL) + 1, le=MOST_TOKENS)]
Words = Annotated[int, Field(ge=len(SPECIAL) + 2, le=MOST_TOKENS)]
# A function that trains a tokenizer on texts, and its further arguments.
Recipe = tuple[Callable[..., "PreTrainedTokenizerFast"], dict[str, Any]]
VERSION = "2"  # raised where the same texts would give another tokenizer
_CLEAN = [normalizers.Replace("’", "'"), normalizers.Replace(Regex(PARTED_NOT), "")]
_SPLIT = pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True)


def train_bpe(texts: Iterable[str], *, vocab_size: int) -> PreTrainedTokenizerFast:
    """Trains a byte-level BPE tokenizer on the first 20 MB of ``texts``; the same texts give the same tokenizer.

    A text gets a leading blank, so that a word has one id wherever it stands.

    Args:
        texts: normalised texts.
        vocab_size: number of ids, special tokens and the 256 bytes included (``BytePairs``).
    """
    mask = AddedToken(MASK, lstrip=True, special=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[*SPECIAL.values(), mask],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sample(texts), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", END), ("<s>", START), add_prefix_space=True)
    ends = {"cls_token": SPECIAL["bos_token"], "sep_token": SPECIAL["eos_token"]}
    return _fast(tokenizer, mask_token=mask, add_prefix_space=True, **ends)


def train_words(
    texts: Iterable[str],
    *,
    vocab_size: int,
    min_count: int,
    lowercase: bool = False,
    symbols: bool = False,
) -> PreTrainedTokenizerFast:
    """Counts the words of all ``texts`` and makes a tokenizer of the frequent ones.

    Memory grows only with the number of different words. The same texts give the same tokenizer: words of the
    same count are in the order of their characters. It reads a curly apostrophe as a straight one, the Billion
    Word's "don 't" as "don't", and adds no special tokens. "<s>" in the texts is three marks, here and in a
    token table (data.store). The tokenizer itself, as ``encode`` calls it, takes it for the special token, like
    every fast tokenizer.

    Args:
        texts: raw or tokenised, normalised texts.
        vocab_size: largest number of ids, the five special tokens (0 to 4) included (``Words``).
        min_count: occurrences that a word needs.
        lowercase: whether words that differ only in case are one.
        symbols: whether only blanks separate words, for texts that are not prose ("(NP XX )NP", in trees).

    Raises:
        UserError: if no word is frequent enough.
    """
    special = [*SPECIAL.values(), MASK]
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL["unk_token"]))
    lower = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence(lower if symbols else [*_CLEAN, *lower])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if symbols else _SPLIT
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == len(special):
        raise UserError(f"no word of the text occurs {min_count:,} times", key="encoder.min_count")
    return _fast(tokenizer, mask_token=AddedToken(MASK, special=True))


def load_or_train(
    recipe: Recipe, texts: Callable[[], Iterable[str]], cache: Path, texts_key: str
) -> PreTrainedTokenizerFast:
    """Opens a cached tokenizer; trains it first if it is not in the cache. Other processes wait for it.

    Args:
        recipe: ``train_bpe`` or ``train_words``, and its arguments besides the texts.
        texts: returns the texts.
        cache: folder of all tokenizers.
        texts_key: digest of the texts.
    """
    train, arguments = recipe
    folder = cache / f"{train.__name__}-{fingerprint(VERSION, str(arguments), texts_key)}"
    build_once(folder, lambda unfinished: train(texts(), **arguments).save_pretrained(unfinished))
    return load_tokenizer(folder)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Opens the tokenizer that ``save_pretrained`` wrote into ``folder``.

    Raises:
        UserError: if it cannot be opened.
    """
    from transformers import PreTrainedTokenizerFast

    with reading("tokenizer", folder):
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def plain_backend(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    """Returns a copy of the Rust tokenizer that neither cuts nor pads, and reads "<s>" in a text as text."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend


def is_byte_level(backend: Tokenizer) -> bool:
    """Returns whether the vocabulary is over bytes, where a word's id depends on the blank before it."""
    return "ByteLevel" in f"{backend.pre_tokenizer}{backend.decoder}"


def _sample(texts: Iterable[str]) -> Iterator[str]:
    size = 0
    for text in texts:
        yield text
        size += len(text.encode())
        if size >= SAMPLE_BYTES:
            break


def _fast(tokenizer: Tokenizer, **options: Any) -> PreTrainedTokenizerFast:
    """Returns ``tokenizer`` as a Hugging Face tokenizer, with the special tokens ``SPECIAL`` and ``options``."""
    from transformers import PreTrainedTokenizerFast  # slow to import, and rarely needed

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL, **options)
