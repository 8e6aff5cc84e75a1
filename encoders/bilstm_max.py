"""BiLSTM-Max: a bidirectional LSTM over word vectors, and the largest value of each component over the words.

    h_t = [forward LSTM(x_1 .. x_t) ; backward LSTM(x_n .. x_t)]        sentence = max_t h_t

Conneau et al. (2017), "Supervised Learning of Universal Sentence Representations from Natural Language Inference
Data" (InferSent), section 3.2; untrained in Conneau et al. (2018), "What you can cram into a single vector".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from data.ranges import Below1, Count, Width
from data.tokenizer import Words
from encoders.base import NO_LIMIT
from encoders.layout import write_lstm
from encoders.recurrent import Layers, Recurrent, Shape


class BiLSTMMax(Recurrent):
    """A BiLSTM with max pooling over real words.

    Args:
        hidden: per direction; a sentence vector has twice as many components.
        layers: one above the other.
        word_size: E, of a word vector; a file of ``vectors`` has its own.
        vocab_size .. device: as ``LSTM`` has them. InferSent does not train word vectors (ConsSent does not
            say), and has no dropout.

    Attributes:
        coverage: how many words ``vectors`` has, else None. (Of running words nothing is known here.)

    Random weights are drawn from torch's global generator, as its initialisers take no other. It begins in eval
    mode. No special token is put around a sentence.

    sentence-transformers opens what ``save`` writes (its WordEmbeddings, LSTM and Pooling) and gives the same
    vectors, but for a text without any token: zeros here, -inf there.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if a file cannot be opened, or ``vectors`` has none of the words.
    """

    title = "BiLSTM-Max"
    cell = nn.LSTM
    network = "1_LSTM"
    ways = ("max", "mean")  # the latter for a trained one, by encoders.load

    def __init__(
        self,
        *,
        hidden: Width = 2048,
        layers: Layers = 1,
        word_size: Width = 300,
        vocab_size: Words = 50_000,
        min_count: Count = 2,
        lowercase: bool = False,
        vectors: str | None = None,
        train_vectors: bool = True,
        dropout: Below1 = 0.0,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        path: str | None = None,
        max_length: Annotated[int, Field(ge=1, le=NO_LIMIT)] | None = None,
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            Shape(hidden=hidden, layers=layers, word_size=word_size, bidirectional=True),
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
    def load(cls, folder: Path | str) -> BiLSTMMax:
        """Opens what ``save`` wrote."""
        return cls(path=str(folder))

    def _write_modules(self, folder: Path) -> None:
        write_lstm(folder, self, self.pooling)
