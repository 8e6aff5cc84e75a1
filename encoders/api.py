"""Contract of everything that encodes: sentences in, vectors out; and the output of one forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


class Encoding(NamedTuple):
    """Output of an encoder for B sequences of at most T tokens.

    Attributes:
        states: one for each token, of shape (B, T, H).
        mask: of shape (B, T), bool; True at real tokens.
        sentence: one vector for each sequence, of shape (B, D).
    """

    states: Tensor
    mask: Tensor
    sentence: Tensor


class SentenceEncoder(ABC):
    """Turns sentences into vectors; arguments have the names that sentence-transformers gives them."""

    def fingerprint(self) -> str:
        """Returns a text that differs between encoders with different vectors (``encoders.fingerprint``)."""
        from encoders.fingerprint import fingerprint  # it imports this module

        return fingerprint(self)

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = False,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """Encodes sentences; a sentence has the same vector alone and in any batch, an empty one zeros.

        Args:
            sentences: n sentences, or one.
            batch_size: most sentences of a forward pass; None: only ``batch_tokens`` limits it.
            batch_tokens: most tokens of a forward pass, padding included; None: 1,024 on a CPU and 32,768 on a
                GPU. On a CPU never more than 1,024.
            show_progress_bar: whether a bar shows the progress.
            convert_to_tensor: whether to return a tensor, on the CPU, instead of an array.
            normalize_embeddings: whether vectors are scaled to length 1.

        Returns:
            Vectors of shape (n, D) in the order given, or of shape (D,) for one sentence; float32.

        Raises:
            ValueError: if ``sentences`` holds anything but strings, or a limit of a batch is below 1.
            UserError: if the tokenizer cannot encode a sentence, or a vector is not finite.
        """
        texts: list[Any] = [sentences] if isinstance(sentences, str) else list(sentences)
        if others := [text for text in texts if not isinstance(text, str)]:
            raise ValueError(f"encode takes a sentence or a list of them. Got {others[0]!r} among them.")
        if min(batch_size or 1, batch_tokens or 1) < 1 or 0 in (batch_size, batch_tokens):
            raise ValueError(f"Limits of a batch must be at least 1. Got {batch_size}, {batch_tokens} instead.")
        vectors = torch.from_numpy(self._encode(texts, batch_size, batch_tokens, bool(show_progress_bar)))
        vectors = F.normalize(vectors, dim=1) if normalize_embeddings else vectors
        vectors = vectors[0] if isinstance(sentences, str) else vectors
        return vectors if convert_to_tensor else vectors.numpy()

    @abstractmethod
    def _encode(
        self, sentences: list[str], batch_size: int | None, batch_tokens: int | None, progress: bool
    ) -> np.ndarray:
        """Encodes n sentences into float32 vectors of shape (n, D)."""

    def similarity(self, first: Any, second: Any) -> Tensor:
        """Returns the cosines of n vectors with m others, of shape (n, m); each argument may be one vector."""
        rows, columns = (
            F.normalize(torch.atleast_2d(torch.as_tensor(vectors)), dim=1) for vectors in (first, second)
        )
        return rows @ columns.T
