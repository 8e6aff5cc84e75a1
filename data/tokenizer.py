"""Byte-level BPE trained on a corpus, for encoders that start from random weights.

Sennrich, Haddow and Birch (2016), section 3.2, over bytes as in Radford et al. (2019), section 2.2; special
tokens and template as RoBERTa's (Liu et al. 2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from data.errors import ShortTextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
START, PAD, END, _ = range(len(SPECIAL))  # their ids in every vocabulary of this module and data.vocabulary
SAMPLE_BYTES = 20_000_000  # of text; more changes the merges little and costs time in proportion
MOST_TOKENS = 10_000_000  # of a vocabulary
BytePairs = Annotated[int, Field(ge=256 + len(SPECIAL) + 1, le=MOST_TOKENS)]  # that hold all bytes
Words = Annotated[int, Field(ge=len(SPECIAL) + 2, le=MOST_TOKENS)]  # of a vocabulary, <mask> and one word included
VERSION = "1"  # of ``train_bpe``: raise it where the same texts would give another tokenizer


def train_bpe(texts: Iterable[str], *, vocab_size: int, max_length: int = 512) -> PreTrainedTokenizerFast:
    """Trains a byte-level BPE tokenizer on the first 20 MB of ``texts``; the same texts give the same tokenizer.

    A text gets a leading blank, so that a word has one id wherever it stands.

    Args:
        texts: normalised texts.
        vocab_size: number of ids, special tokens and the 256 bytes included (``BytePairs``).
        max_length: positions of the encoder that it is for, special tokens included.

    Raises:
        UserError: if there is no text.
    """
    mask = AddedToken("<mask>", lstrip=True, special=True)
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
    tokenizer.train_from_iterator(sample(texts), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", END), ("<s>", START), add_prefix_space=True)
    ends = {"cls_token": SPECIAL["bos_token"], "sep_token": SPECIAL["eos_token"]}
    return fast_tokenizer(tokenizer, max_length, mask_token=mask, add_prefix_space=True, **ends)


def sample(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts that a tokenizer is trained on: the first 20 MB.

    Raises:
        UserError: if there is nothing in them.
    """
    size = 0
    for text in texts:
        yield text
        size += len(text.encode())
        if size >= SAMPLE_BYTES:
            break
    if size == 0:
        raise ShortTextError("There is no text to train a tokenizer on: the corpus' training part is empty.")


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


def fast_tokenizer(tokenizer: Tokenizer, max_length: int, **options: Any) -> PreTrainedTokenizerFast:
    """Returns ``tokenizer`` as a Hugging Face tokenizer, with the special tokens ``SPECIAL`` and ``options``."""
    from transformers import PreTrainedTokenizerFast  # slow to import, and rarely needed

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL, model_max_length=max_length, **options)
