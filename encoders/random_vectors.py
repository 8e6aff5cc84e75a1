"""Random vectors, the baseline of every evaluation: they do not depend on the meaning of sentences."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from encoders.api import SentenceEncoder


class RandomVectors(SentenceEncoder):
    """A vector of standard normal numbers for each distinct sentence, a pure function of seed and sentence.

    It has no tokens, states or weights and so is no ``Encoder``; an evaluation needs none of them.

    Args:
        dimension: D.
        seed: of all vectors, not negative.
    """

    weights = "random"

    def __init__(self, *, dimension: int = 384, seed: int = 0) -> None:
        self.dimension = dimension
        self.seed = seed
        self.origin = f"random vectors of {dimension}, seed {seed}"

    def fingerprint(self) -> str:
        return f"random_vectors-{self.dimension}-{self.seed}"

    def _encode(self, sentences: list[str], **options: Any) -> np.ndarray:
        vectors = np.empty((len(sentences), self.dimension), dtype=np.float32)
        for row, sentence in zip(vectors, sentences, strict=True):
            digest = blake2b(f"{self.seed} {sentence}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
            stream = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
            stream.standard_normal(out=row, dtype=np.float32)
        return vectors
