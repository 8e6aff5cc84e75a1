"""Random generators that are pure functions of a key, so that nothing depends on a worker, rank or restart."""

from __future__ import annotations

import numpy as np

# First number of every key, so that no two purposes share a stream. (To SeedSequence, keys of up to four numbers
# that differ only in trailing zeros are the same, so the purpose stands in front.)
ORDER, EXAMPLE, FIXED, DROPOUT, EVALUATED_PAIRS, EVALUATED_SPLIT, PROBE, MASKED_PASSAGES = range(1, 9)
TASK = 102  # the choice of a step's task


def generator(*key: int) -> np.random.Generator:
    """Returns a generator that depends only on ``key`` (non-negative integers: purpose, seed, step, document)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
