"""ConsSent's views of a sentence S = w_1 .. w_n: four ways to perturb it, two ways to split it.

    D  k tokens deleted            P  k tokens permuted, another sequence than S
    I  k tokens not in S inserted  R  k tokens replaced by tokens not in S
    C  w_1 .. w_i-1 | w_i .. w_n   N  each token in either part with probability 1/2

Brahma 2018 (arXiv 1808.04217), sections 3 and 4. "k random tokens" of S are those of k different positions, drawn
uniformly. The paper does not say where "tokens not in S" come from (see ``Noise``). ``repeat`` and ``crop`` are
for other papers (``objectives.simcse``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from data.errors import UserError


class Perturbed(NamedTuple):
    """Token ids of shape (m,), and the position of each in the sentence (-1: not in it), of shape (m,)."""

    tokens: np.ndarray
    sources: np.ndarray


class Noise:
    """Distribution of the tokens that are not in a sentence.

    Args:
        weights: of each token id, of shape (V,), whole numbers: the corpus' counts (its unigram distribution), or
            ones (uniform over the vocabulary; rare words then give a perturbed sentence away).
        special_ids: ids that are never drawn. "<unk>" should be one of them: it stands for many words, so it may
            stand for a word of the sentence.
    """

    def __init__(self, weights: np.ndarray, special_ids: Collection[int] = ()) -> None:
        self.weights = weights.astype(np.int64)
        self.weights[list(special_ids)] = 0
        self.ends = np.cumsum(self.weights)  # token t owns the numbers ends[t] - weights[t] .. ends[t] - 1

    def draw(self, tokens: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws ``count`` token ids, of shape (count,), int64, independently from those not in ``tokens``.

        The numbers of the sentence's own tokens are removed first, so that no draw is rejected.

        Args:
            tokens: token ids of shape (n,), each below V.

        Raises:
            UserError: if ``tokens`` has every token with a weight.
        """
        own = np.unique(tokens)
        taken = self.weights[own]
        before = np.cumsum(taken) - taken  # numbers of own tokens that lie before each one's
        left = int(self.ends[-1] - taken.sum())
        if left == 0:
            raise UserError(
                "a sentence has every token of the vocabulary, so that no other can be inserted", key="corpus"
            )
        numbers = rng.integers(left, size=count)
        passed = np.searchsorted(self.ends[own] - taken - before, numbers, side="right")
        numbers += np.append(before, taken.sum())[passed]
        return np.searchsorted(self.ends, numbers, side="right")


def delete(tokens: np.ndarray, k: int, rng: np.random.Generator) -> Perturbed:
    """Deletes ``k`` random positions of ``tokens`` (of shape (n,), n > k); m = n - k."""
    return select(tokens, np.delete(np.arange(len(tokens)), _positions(tokens, k, rng)))


def permute(tokens: np.ndarray, k: int, rng: np.random.Generator) -> Perturbed:
    """Permutes ``k`` random positions of ``tokens`` (of shape (n,)); m = n, and the sequence is never the same.

    Positions are uniform over those that hold two different tokens, and their new order is uniform over all
    *sequences* but the old one: a permutation is drawn until the sequence differs, and each sequence of the drawn
    tokens comes from equally many permutations.

    Raises:
        ValueError: if ``tokens`` has no two different tokens, or ``k`` is below 2 or above n.
    """
    if k < 2 or not (tokens != tokens[0]).any():
        raise ValueError("At least 2 positions with different tokens can be permuted.")
    while True:
        positions = _positions(tokens, k, rng)
        old = tokens[positions]
        if (old != old[0]).any():
            break
    new = rng.permutation(positions)
    while (tokens[new] == old).all():
        new = rng.permutation(positions)
    sources = np.arange(len(tokens))
    sources[positions] = new
    return select(tokens, sources)


def insert(tokens: np.ndarray, k: int, rng: np.random.Generator, noise: Noise) -> Perturbed:
    """Inserts ``k`` tokens of ``noise`` into ``tokens`` (of shape (n,), n > 0); m = n + k, int64.

    The j-th of them goes into one of the n + j gaps at that time, both ends included.

    Raises:
        UserError: as ``Noise.draw``.
    """
    row, sources = tokens.tolist(), list(range(len(tokens)))
    gaps = rng.integers(len(tokens) + 1 + np.arange(k))
    for gap, token in zip(gaps.tolist(), noise.draw(tokens, k, rng).tolist(), strict=True):
        row.insert(gap, token)
        sources.insert(gap, -1)
    return Perturbed(np.array(row, dtype=np.int64), np.array(sources))


def replace(tokens: np.ndarray, k: int, rng: np.random.Generator, noise: Noise) -> Perturbed:
    """Replaces ``k`` random positions of ``tokens`` (of shape (n,), n >= k) by tokens of ``noise``; m = n, int64.

    Raises:
        UserError: as ``Noise.draw``.
    """
    replaced = tokens.astype(np.int64)  # stores keep small unsigned types
    new, sources = noise.draw(tokens, k, rng), np.arange(len(tokens))
    positions = _positions(tokens, k, rng)
    replaced[positions], sources[positions] = new, -1
    return Perturbed(replaced, sources)


def repeat(tokens: np.ndarray, k: int, rng: np.random.Generator) -> Perturbed:
    """Repeats the tokens at ``k`` random positions of ``tokens`` (of shape (n,), n >= k) in place; m = n + k."""
    after = _positions(tokens, k, rng) + 1
    return Perturbed(np.insert(tokens, after, tokens[after - 1]), np.insert(np.arange(len(tokens)), after, -1))


def crop(tokens: np.ndarray, length: int, rng: np.random.Generator) -> Perturbed:
    """Returns consecutive ``tokens`` (of shape (n,), n >= length) from a uniformly drawn start; m = length."""
    start = int(rng.integers(len(tokens) - length, endpoint=True))
    return select(tokens, np.arange(start, start + length))


def split_in_two(tokens: np.ndarray, rng: np.random.Generator) -> tuple[Perturbed, Perturbed]:
    """Returns w_1 .. w_i-1 and w_i .. w_n of ``tokens`` (of shape (n,), n > 2), i uniform over {2 .. n - 1}.

    The paper says only "at a random point"; its table 1 cuts "Maya | goes to school ." and "She loves | it .". So
    a first part may be one token, a second part has two or more.
    """
    i = int(rng.integers(2, len(tokens)))
    first, second = np.split(np.arange(len(tokens)), [i - 1])
    return select(tokens, first), select(tokens, second)


def part_at_random(tokens: np.ndarray, rng: np.random.Generator) -> tuple[Perturbed, Perturbed]:
    """Assigns each of ``tokens`` (of shape (n,), n > 1) to one of two parts with probability 1/2; returns both.

    Tokens stay in order within a part. All are assigned again until neither part is empty.
    """
    while True:
        first = rng.random(len(tokens)) < 0.5
        if 0 < np.count_nonzero(first) < len(tokens):
            return select(tokens, np.flatnonzero(first)), select(tokens, np.flatnonzero(~first))


def select(tokens: np.ndarray, sources: np.ndarray) -> Perturbed:
    """Returns the tokens at the positions ``sources``, in their order."""
    return Perturbed(tokens[sources], sources)


def _positions(tokens: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Draws ``k`` different positions, every set of them equally likely, in an arbitrary order."""
    return rng.choice(len(tokens), k, replace=False, shuffle=False)
