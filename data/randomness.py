"""Random generators that are pure functions of a key, so that nothing depends on a worker, rank or restart."""

from __future__ import annotations

import numpy as np


def generator(*key: int) -> np.random.Generator:
    """A generator that depends on ``key`` (non-negative integers, e.g. seed, step, document) alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
