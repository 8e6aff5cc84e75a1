"""A word's vector: its row in an encoder's table of word vectors, or the word encoded as a sentence of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch

from data.errors import UserError
from data.tokenizer import is_byte_level, plain_backend
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from encoders.random_vectors import RandomVectors
from encoders.recurrent import Recurrent

Kind = Literal["table", "sentence"]
KINDS: tuple[Kind, ...] = ("table", "sentence")


class Lexicon:
    """The words that an encoder knows, and their vectors.

    From the table a word is known if the tokenizer gives it one token, which is not the unknown one. As a sentence
    it is known if all its tokens are: an encoder of sub-words knows every word.

    Args:
        encoder: whose words.
        embed: gives sentences their vectors, float32 of shape (n, D).
        kind: where vectors come from; None: the table where there is one, else the sentence.

    Attributes:
        kind: where they come from.

    Raises:
        UserError: if a table is wanted and there is none.
    """

    def __init__(
        self,
        encoder: Encoder | RandomVectors,
        embed: Callable[[Sequence[str]], np.ndarray],
        kind: Kind | None = None,
    ) -> None:
        table = _table(encoder)
        if kind == "table" and table is None:
            raise UserError(
                "The encoder has no table of word vectors: --vectors sentence encodes a word as a sentence."
            )
        self.kind: Kind = kind or ("sentence" if table is None else "table")
        self._rows = None if table is None or self.kind == "sentence" else table.detach().float().cpu().numpy()
        self._embed = embed
        members = list(encoder.members) if isinstance(encoder, Concatenated) else [encoder]
        self._readers = [
            (plain_backend(one.tokenizer), one.tokenizer.unk_token_id)
            for one in members
            if isinstance(one, Encoder)
        ]

    def knows(self, word: str) -> bool:
        """Whether ``word`` has a vector of its own, as it stands."""
        for backend, unknown in self._readers:
            ids = backend.encode(word, add_special_tokens=False).ids
            if not ids or unknown in ids or (self._rows is not None and len(ids) > 1):
                return False
        return bool(word)

    def form(self, word: str) -> str | None:
        """``word`` in lower case, else as it stands, whichever is known; None where neither is."""
        return next((form for form in (word.lower(), word) if self.knows(form)), None)

    def vectors(self, words: Sequence[str]) -> np.ndarray:
        """Vectors of ``words``, float32 of shape (n, D).

        An unknown word has, from a table, the row of the unknown token, or zeros where the encoder has none.
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
    """Word vectors of shape (V, D) of an encoder over words; None of others."""
    if not isinstance(encoder, BagOfWords | Recurrent) or is_byte_level(encoder.tokenizer.backend_tokenizer):
        return None
    return encoder.embedding.weight
