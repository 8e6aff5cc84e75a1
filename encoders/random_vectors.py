"""Random vectors, the floor of every evaluation: what they score owes nothing to what sentences mean."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from encoders.inference import listed


class RandomVectors:
    """Each distinct sentence has a vector of standard normal numbers, a pure function of seed and sentence.

    It has no tokens, states or weights, hence is no ``Encoder``: it has what an evaluation asks for and no more.

    Args:
        dimension: D.
        seed: of all vectors, not negative.

    Raises:
        ValueError: if an argument is out of range.
    """

    weights = "random"

    def __init__(self, *, dimension: int = 384, seed: int = 0) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1. Got {dimension} instead.")
        if seed < 0:
            raise ValueError(f"seed must be at least 0. Got {seed} instead.")
        self.dimension = dimension
        self.seed = seed
        self.origin = f"random vectors of {dimension}, seed {seed}"

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_tokens: int = 8192,
        normalize: bool = False,
        progress: bool = False,
    ) -> np.ndarray:
        """Vectors of ``sentences``, float32 of shape (n, D); there are no batches and no bar."""
        sentences = listed(sentences)
        vectors = np.empty((len(sentences), self.dimension), dtype=np.float32)
        for row, sentence in zip(vectors, sentences, strict=True):
            digest = blake2b(f"{self.seed} {sentence}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
            stream = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
            stream.standard_normal(out=row, dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else vectors
