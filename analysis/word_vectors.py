"""Vectors of words: rows of an encoder's table of word vectors, or each word encoded as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
import torch

from analysis.settings import WordVectors
from data.errors import UserError
from data.tokenizer import is_byte_level, plain_backend
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from encoders.random_vectors import RandomVectors
from encoders.recurrent import Recurrent

KINDS: tuple[WordVectors, ...] = get_args(WordVectors)


class Lexicon:
    """Known words of an encoder and their vectors.

    With the table, a word is known if it is a single token other than the unknown one. As a sentence it is known
    if all its tokens are, so an encoder of sub-words knows every word.

    Args:
        encoder: encoder of the words.
        embed: function from sentences to vectors, float32 of shape (n, D).
        kind: source of the vectors; None: the table if there is one, otherwise the sentence.

    Attributes:
        kind: source of the vectors.

    Raises:
        UserError: if a table is requested and there is none.
    """

    def __init__(
        self,
        encoder: Encoder | RandomVectors,
        embed: Callable[[Sequence[str]], np.ndarray],
        kind: WordVectors | None = None,
    ) -> None:
        table = _table(encoder)
        if kind == "table" and table is None:
            raise UserError(
                "The encoder has no table of word vectors: words=sentence encodes a word as a sentence."
            )
        self.kind: WordVectors = kind or ("sentence" if table is None else "table")
        self._rows = None if table is None or self.kind == "sentence" else table.detach().float().cpu().numpy()
        self._embed = embed
        members = list(encoder.members) if isinstance(encoder, Concatenated) else [encoder]
        self._readers = [
            (plain_backend(one.tokenizer), one.tokenizer.unk_token_id)
            for one in members
            if isinstance(one, Encoder)
        ]

    def knows(self, word: str) -> bool:
        """Returns True if ``word`` is known in exactly this form."""
        for backend, unknown in self._readers:
            ids = backend.encode(word, add_special_tokens=False).ids
            if not ids or unknown in ids or (self._rows is not None and len(ids) > 1):
                return False
        return bool(word)

    def form(self, word: str) -> str | None:
        """Returns the known form of ``word``: lower case, otherwise unchanged; None if neither is known."""
        return next((form for form in (word.lower(), word) if self.knows(form)), None)

    def vectors(self, words: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``words``, float32 of shape (n, D).

        With a table, an unknown word gets the row of the unknown token, or zeros if the encoder has none.
        """
        if self._rows is None:
            return self._embed(words)
        [(backend, unknown)] = self._readers
        found = np.zeros((len(words), self._rows.shape[1]), dtype=np.float32)
        for place, encoding in enumerate(backend.encode_batch_fast(list(words), add_special_tokens=False)):
            row = encoding.ids[0] if len(encoding.ids) == 1 else unknown
            if row is not None:
                found[place] = self._rows[row]
        return found


def _table(encoder: Encoder | RandomVectors) -> torch.Tensor | None:
    """Returns the word vectors, of shape (V, D), of an encoder over words; None for other encoders."""
    if not isinstance(encoder, BagOfWords | Recurrent) or is_byte_level(encoder.tokenizer.backend_tokenizer):
        return None
    return encoder.embedding.weight
