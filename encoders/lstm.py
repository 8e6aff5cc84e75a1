"""An LSTM that reads word vectors from left to right, and its last state as the vector.

    h_t = LSTM(x_1 .. x_t)        sentence = h_n

x_1 is "<s>"; no token follows the last word, whose state has seen the whole sentence. The encoder of ConsSent's
baseline LangMod (Brahma 2018, section 5): "The last hidden state of the trained LSTM acting on a sentence".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from tokenizers import processors
from torch import nn

from data.ranges import Below1, Count, Width
from data.tokenizer import Words
from encoders.base import NO_LIMIT
from encoders.layout import write_lstm
from encoders.recurrent import Layers, Recurrent, Shape


class LSTM(Recurrent):
    """An LSTM, its last state, and "<s>" before each sentence.

    Args:
        hidden: of a state, and so of a sentence vector.
        layers: one above the other; the topmost makes the vector.
        word_size: E, of a word vector; a file of ``vectors`` has its own.
        vocab_size: most words of the vocabulary made from ``texts``, five special tokens included.
        min_count: how often a word must occur in ``texts`` to be in it.
        lowercase: whether the vocabulary is of lower-cased words.
        vectors: file of word vectors to begin with (see ``data.vectors``): a word's own, else that of its lower
            case; words without one begin at random, as long as the others.
        train_vectors: whether word vectors change in training.
        dropout: of word vectors and of the states between layers (Zaremba et al. 2014).
        weights: "auto" (random unless ``path``), "random" or "pretrained" (``path`` must be given).
        path: a folder that ``save`` wrote; sizes, words and weights are those in it.
        max_length: most words of an input, "<s>" included, the rest is cut; None: no limit, or the folder's.
        texts: makes the texts whose words a random start takes.
        texts_key: makes a name for the texts, so that a kept vocabulary is found without reading them.
        cache: folder that keeps such vocabularies.
        tokenizer: folder of the tokenizer that a random start takes, instead of making a vocabulary.
        require_mask_token: give a random start an MLM head, tied to the word vectors.
        device: where to put it.

    Random weights are drawn from torch's global generator, as its initialisers take no other. It begins in eval
    mode. sentence-transformers opens what ``save`` writes (its WordEmbeddings, LSTM and Pooling).

    Raises:
        ValueError: if an argument is out of range.
        UserError: if a file cannot be opened, or ``vectors`` has none of the words.
    """

    title = "LSTM"
    cell = nn.LSTM
    network = "1_LSTM"
    ways = ("last", "max", "mean")  # the others for a trained one, by encoders.load

    def __init__(
        self,
        *,
        hidden: Width = 4096,
        layers: Layers = 1,
        word_size: Width = 512,
        vocab_size: Words = 50_000,
        min_count: Count = 2,
        lowercase: bool = False,
        vectors: str | None = None,
        train_vectors: bool = True,
        dropout: Below1 = 0.0,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        path: str | None = None,
        max_length: Annotated[int, Field(ge=2, le=NO_LIMIT)] | None = None,  # <s>, a word
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            Shape(hidden=hidden, layers=layers, word_size=word_size, bidirectional=False),
            vocab_size=vocab_size,
            min_count=min_count,
            lowercase=lowercase,
            vectors=vectors,
            train_vectors=train_vectors,
            dropout=dropout,
            weights=weights,
            path=path,
            max_length=max_length,
            texts=texts,
            texts_key=texts_key,
            cache=cache,
            tokenizer=tokenizer,
            require_mask_token=require_mask_token,
            device=device,
        )

    @classmethod
    def load(cls, folder: Path | str) -> LSTM:
        """Opens what ``save`` wrote."""
        return cls(path=str(folder))

    def _marks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        first, number = self.tokenizer.bos_token, self.tokenizer.bos_token_id
        self.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, number)]
        )
        return (number,), ()

    def _write_modules(self, folder: Path) -> None:
        write_lstm(folder, self, self.pooling)
