"""Byte-level BPE trained on a corpus, for encoders that start from random weights; tokenizers in folders.

Sennrich, Haddow and Birch (2016), section 3.2, over bytes as in Radford et al. (2019), section 2.2; special
tokens and template as RoBERTa's (Liu et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from filelock import FileLock
from pydantic import Field
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from data.errors import UserError, reading
from data.files import atomic_folder
from data.sources.base import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
START, PAD, END, _ = range(len(SPECIAL))  # their ids in every vocabulary of this module and data.vocabulary
SAMPLE_BYTES = 20_000_000  # of text; more would change the merges little and take time in proportion
MOST_TOKENS = 10_000_000  # of a vocabulary
# Sizes of a vocabulary: of byte-level BPE, all bytes and <mask> included; of words, <mask> and one word included.
BytePairs = Annotated[int, Field(ge=256 + len(SPECIAL) + 1, le=MOST_TOKENS)]
Words = Annotated[int, Field(ge=len(SPECIAL) + 2, le=MOST_TOKENS)]
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


def corpus_tokenizer(
    texts: Callable[[], Iterable[str]],
    vocab_size: int,
    max_length: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
) -> PreTrainedTokenizerFast:
    """Trains a byte-level BPE on ``texts()``, or opens the one cached in ``cache``.

    ``texts_key()`` stands for the texts, so that they need not be read again; None: they are read and hashed.
    A second process that asks for the same tokenizer waits for the first.
    """
    return cached_tokenizer(
        "bpe",
        (VERSION, f"{vocab_size} {max_length}"),
        lambda: train_bpe(texts(), vocab_size=vocab_size, max_length=max_length),
        texts,
        texts_key,
        cache,
    )


def cached_tokenizer(
    kind: str,
    identity: tuple[str, ...],
    train: Callable[[], PreTrainedTokenizerFast],
    texts: Callable[[], Iterable[str]],
    texts_key: Callable[[], str] | None,
    cache: Path | None,
) -> PreTrainedTokenizerFast:
    """Returns ``train()``, cached in ``cache`` under ``kind``, ``identity`` and the texts.

    ``texts`` and ``texts_key`` are those of ``corpus_tokenizer``.
    """
    if cache is None:
        return train()
    names = texts() if texts_key is None else [texts_key()]
    folder = cache / f"{kind}-{fingerprint(*identity, *names)}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{folder.name}.lock"):
            if not folder.is_dir():
                tokenizer = train()
                with atomic_folder(folder) as unfinished:
                    tokenizer.save_pretrained(unfinished)
    return load_tokenizer(folder)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Opens the tokenizer that ``save_pretrained`` wrote into ``folder``.

    Raises:
        UserError: if it cannot be opened.
    """
    from transformers import PreTrainedTokenizerFast

    with reading("tokenizer", folder):
        if not folder.is_dir():
            raise FileNotFoundError("there is no such folder")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        check_vocabulary(tokenizer, len(tokenizer))
        if tokenizer.pad_token_id is None:
            raise ValueError("it has no padding token")
        return tokenizer


def check_vocabulary(tokenizer: Any, size: int) -> None:
    """Refuses a tokenizer without ids, or with ids beyond the ``size`` word vectors of a model.

    Raises:
        ValueError: if they do not fit.
    """
    largest = max([*tokenizer.get_vocab().values(), *tokenizer("a")["input_ids"]], default=-1)
    if not 0 <= largest < size:
        raise ValueError(f"its largest token id is {largest}, and there are {size} word vectors")


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
        raise UserError("the training part has no text to train a tokenizer on", key="corpus")


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
