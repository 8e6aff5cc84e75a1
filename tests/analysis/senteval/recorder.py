"""Function of random vectors that records its calls."""

from __future__ import annotations

from itertools import chain

import numpy as np

from encoders.random_vectors import RandomVectors


class Recorder:
    """Function that encodes sentences; raises KeyboardInterrupt at the call ``stop``."""

    def __init__(self, seed: int = 0, dimension: int = 8, stop: int | None = None) -> None:
        self.encoder, self.stop = RandomVectors(dimension=dimension, seed=seed), stop
        self.calls = list[list[str]]()

    def __call__(self, sentences: list[str]) -> np.ndarray:
        if len(self.calls) == self.stop:
            raise KeyboardInterrupt
        self.calls.append(sentences)
        return self.encoder.encode(sentences)

    @property
    def sentences(self) -> list[str]:
        return [*chain.from_iterable(self.calls)]
