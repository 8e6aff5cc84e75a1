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

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns a name of all that the vectors depend on, so that a cache never returns another encoder's."""

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
        """Encodes sentences; a sentence has the same vector alone and in any batch.

        One without any token, special ones included, has zeros (behind ``encoders.postprocess``, the map of them).

        Args:
            sentences: n sentences, or one.
            batch_size: most sentences of a forward pass; None: only ``batch_tokens`` limits it.
            batch_tokens: most tokens of a forward pass, padding included; None: 768 on a CPU and 32,768 on a
                GPU. On a CPU never more than 768.
            show_progress_bar: whether a bar shows the progress.
            convert_to_tensor: whether to return a tensor, on the CPU, instead of an array.
            normalize_embeddings: whether vectors are scaled to length 1.

        Returns:
            Vectors of shape (n, D) in the order given, or of shape (D,) for one sentence; float32.

        Raises:
            UserError: if one is not a string of Unicode, or a vector is not finite.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        options = {"batch_size": batch_size, "batch_tokens": batch_tokens, "progress": bool(show_progress_bar)}
        vectors = torch.from_numpy(self._encode(texts, **options))
        vectors = F.normalize(vectors, dim=1) if normalize_embeddings else vectors
        vectors = vectors[0] if isinstance(sentences, str) else vectors
        return vectors if convert_to_tensor else vectors.numpy()

    @abstractmethod
    def _encode(self, sentences: list[str], **options: Any) -> np.ndarray:
        """Encodes n sentences into float32 vectors of shape (n, D).

        Args:
            sentences: n texts.
            options: batch_size, batch_tokens and progress of ``encoders.inference.encode``.
        """
