"""A GRU over word vectors, in one direction or both, and its last states or their largest values as the vector.

    h_t = [forward GRU(x_1 .. x_t) ; backward GRU(x_n .. x_t)]
    last  sentence = [backward h_1 ; forward h_n]        max  sentence = max_t h_t

Subramanian et al. (2018), "Learning General Purpose Distributed Sentence Representations via Large Scale
Multi-task Learning" (GenSen), sections 7 and 8. x_1 and x_n are "<s>" and "</s>", and the last states stand in the
order of its published program. (That program's maximum sees padding as well; this one does not.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from tokenizers import processors
from torch import Tensor, nn

from data.ranges import Below1, Count, Width
from data.tokenizer import Words
from encoders.base import NO_LIMIT
from encoders.pooling import pool
from encoders.recurrent import Layers, Recurrent, Shape

Summary = Literal["last", "max"]
WORD_RANGE = 0.1  # first word vectors are uniform within it, as in the published program


class GRU(Recurrent):
    """A GRU, the vector of its states, and "<s>" and "</s>" around each sentence.

    Args:
        hidden: per direction; a sentence vector has twice as many components if the GRU is bidirectional.
        layers: one above the other; the topmost makes the vector.
        bidirectional: whether each layer reads in both directions.
        summary: "last" (states) or "max" (over real positions); None: the folder's, or "last".
        word_size: E, of a word vector; a file of ``vectors`` has its own.
        vocab_size .. device: as ``LSTM`` has them. But dropout is of the states between layers
            alone, and one layer has none. GenSen begins without ``vectors``.

    Attributes:
        pooling: "last", "max" or "mean".
        coverage: how many words ``vectors`` has, else None.

    Random weights are drawn from torch's global generator, as its initialisers take no other. It begins in eval
    mode. Only this suite opens what ``save`` writes: sentence-transformers has no GRU.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if a file cannot be opened, or ``vectors`` has none of the words.
    """

    title = "GRU"
    cell = nn.GRU
    network = "1_GRU"
    drops_words = False
    opens_elsewhere = False
    ways = ("last", "max", "mean")  # the last for a trained one, by encoders.load

    def __init__(
        self,
        *,
        hidden: Width = 750,
        layers: Layers = 1,
        bidirectional: bool = True,
        summary: Summary | None = None,
        word_size: Width = 512,
        vocab_size: Words = 80_000,
        min_count: Count = 2,
        lowercase: bool = True,
        vectors: str | None = None,
        train_vectors: bool = True,
        dropout: Below1 = 0.3,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        path: str | None = None,
        max_length: Annotated[int, Field(ge=3, le=NO_LIMIT)] | None = None,  # <s>, a word, </s>
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            Shape(hidden=hidden, layers=layers, word_size=word_size, bidirectional=bidirectional),
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
        if summary is not None:
            self.pooling = summary

    def summary(self, states: Tensor, mask: Tensor) -> Tensor:
        vectors = pool(states, mask, self.pooling)  # (B, D)
        if self.pooling != "last" or not self.shape.bidirectional:
            return vectors
        # Reading backwards ends at the first word.
        hidden = self.shape.hidden
        return torch.cat([states[:, 0, hidden:], vectors[:, :hidden]], dim=1)

    @classmethod
    def load(cls, folder: Path | str) -> GRU:
        """Opens what ``save`` wrote."""
        return cls(path=str(folder))

    def _start(self, shape: Shape, vectors: str | None) -> None:
        super()._start(shape, vectors)
        if vectors is None:
            nn.init.uniform_(self.embedding.weight, -WORD_RANGE, WORD_RANGE)

    def _marks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        tokenizer = self.tokenizer
        first, last = tokenizer.bos_token, tokenizer.eos_token
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}",
            special_tokens=[(first, tokenizer.bos_token_id), (last, tokenizer.eos_token_id)],
        )
        return (tokenizer.bos_token_id,), (tokenizer.eos_token_id,)
