"""Perturbations and splits of a sentence: their definitions and their distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from data.randomness import generator
from data.views.perturbations import (
    Noise,
    crop,
    delete,
    insert,
    part_at_random,
    permute,
    repeat,
    replace,
    split_in_two,
)

SPECIAL = (0, 1, 2)
VOCABULARY = 20
NOISE = Noise(np.ones(VOCABULARY), SPECIAL)
ALWAYS_8 = Noise(np.arange(9) == 8)
Distribution = dict[tuple[int, ...], float]
Draw = Callable[[np.random.Generator], np.ndarray]


@st.composite
def sentences(draw: st.DrawFn) -> np.ndarray:
    """Draws up to 12 tokens of up to 9 kinds, read-only and of the integer type of a store."""
    kinds = draw(st.integers(1, 9))
    tokens = np.array(draw(st.lists(st.integers(3, 2 + kinds), min_size=1, max_size=12)), dtype=np.uint16)
    tokens.flags.writeable = False
    return tokens


ks = st.integers(1, 6)
seeds = st.integers(0, 2**32)


def uniform_over(outcomes: Iterable[tuple[int, ...]]) -> Distribution:
    """Returns the distribution of uniformly drawn ``outcomes``; probabilities of equal ones add up."""
    counts = Counter(outcomes)
    return {outcome: count / counts.total() for outcome, count in counts.items()}


def assert_follows(draw: Draw, distribution: Distribution, count: int = 4000) -> None:
    """Asserts that samples follow the distribution, by their support and a chi-square test."""
    rng = generator(7)
    counts = Counter(tuple(draw(rng).tolist()) for _ in range(count))
    assert set(counts) <= set(distribution)
    expectations = [probability * count for probability in distribution.values()]
    assert stats.chisquare([counts[outcome] for outcome in distribution], expectations).pvalue > 1e-3


# Deletion (D), insertion (I), replacement (R)


@settings(max_examples=200)
@given(sentences(), ks, seeds)
def test_other_tokens_keep_their_order_and_new_ones_are_not_in_the_sentence(
    tokens: np.ndarray, k: int, seed: int
) -> None:
    n = len(tokens)
    results = [(insert(tokens, k, generator(seed), NOISE), n, k)]
    if n >= k:
        results.append((replace(tokens, k, generator(seed), NOISE), n - k, k))
    if n > k:
        results.append((delete(tokens, k, generator(seed)), n - k, 0))
    for (perturbed, sources), old, new in results:
        inside = sources >= 0
        assert (inside.sum(), (~inside).sum()) == (old, new)
        assert tokens[sources[inside]].tolist() == perturbed[inside].tolist()
        assert (np.diff(sources[inside]) > 0).all()
        assert not np.isin(perturbed[~inside], [*tokens, *SPECIAL]).any() and (perturbed < VOCABULARY).all()


def test_deleted_positions_are_uniform() -> None:
    assert_follows(lambda rng: delete(np.arange(5), 2, rng).tokens, uniform_over(combinations(range(5), 3)))


def test_repeated_positions_are_uniform() -> None:
    outcomes = (tuple(sorted([*range(5), *pair])) for pair in combinations(range(5), 2))
    assert_follows(lambda rng: repeat(np.arange(5), 2, rng).tokens, uniform_over(outcomes))


def test_crops_are_uniform_over_all_starts() -> None:
    outcomes = (tuple(range(start, start + 3)) for start in range(4))
    assert_follows(lambda rng: crop(np.arange(6), 3, rng).tokens, uniform_over(outcomes))


def test_replaced_positions_are_uniform() -> None:
    outcomes = [tuple(8 if i in at else i for i in range(5)) for at in combinations(range(5), 2)]
    assert_follows(lambda rng: replace(np.arange(5), 2, rng, ALWAYS_8).tokens, uniform_over(outcomes))


def test_the_jth_inserted_token_is_uniform_over_n_plus_j_gaps() -> None:
    outcomes = []
    for gaps in product(range(3), range(4), range(5)):
        row = [3, 4]
        for gap in gaps:
            row.insert(gap, 8)
        outcomes.append(tuple(row))
    assert_follows(lambda rng: insert(np.array([3, 4]), 3, rng, ALWAYS_8).tokens, uniform_over(outcomes))


def test_inserted_tokens_are_independent() -> None:
    noise = Noise(np.array([0, 0, 0, 5, 1, 3]))  # without the sentence's 3: P(4) = 1/4, P(5) = 3/4
    single = {4: 0.25, 5: 0.75}
    both: Distribution = {(a, b): single[a] * single[b] for a in single for b in single}
    assert_follows(lambda rng: noise.draw(np.array([3, 3]), 2, rng), both)


# Permutation (P)


def permutation_distribution(tokens: np.ndarray, k: int) -> Distribution:
    """Uniform over the positions with two different tokens, then over all other orders of their tokens."""
    eligible = [at for at in combinations(range(len(tokens)), k) if len(set(tokens[list(at)])) > 1]
    result: Distribution = {}
    for at in eligible:
        old = tuple(tokens[list(at)].tolist())
        orders = set(permutations(old)) - {old}
        for order in orders:
            outcome = tokens.tolist()
            for position, token in zip(at, order, strict=True):
                outcome[position] = token
            key = tuple(outcome)
            result[key] = result.get(key, 0.0) + 1 / len(eligible) / len(orders)
    return result


@settings(max_examples=150)
@given(sentences(), st.integers(2, 6), seeds)
def test_permutation_never_returns_the_same_sequence(tokens: np.ndarray, k: int, seed: int) -> None:
    assume(len(tokens) >= k and len(set(tokens.tolist())) > 1)
    permuted, sources = permute(tokens, k, generator(seed))
    assert tokens[sources].tolist() == permuted.tolist() and {*sources} == {*range(len(tokens))}
    moved = permuted != tokens
    assert 2 <= moved.sum() <= k
    assert sorted(permuted.tolist()) == sorted(tokens.tolist())


@pytest.mark.parametrize(
    ("tokens", "k"), [([5, 6, 7, 8], 3), ([5, 5, 6, 7], 3), ([5, 5, 5, 6], 2), ([5, 5, 6, 6], 4)], ids=str
)
def test_permutations_follow_their_distribution(tokens: list[int], k: int) -> None:
    array = np.array(tokens)
    assert_follows(lambda rng: permute(array, k, rng).tokens, permutation_distribution(array, k))


# Splits (C and N)


@pytest.mark.parametrize("n", [4, 5, 9])
def test_cuts_are_uniform_over_all_cuts(n: int) -> None:
    words = [10 + position for position in range(1, n + 1)]  # w_1 .. w_n
    cuts = [(*words[: i - 1], 0, *words[i - 1 :]) for i in range(2, n)]  # 1 < i < n: before w_i, as in the paper

    def sample(rng: np.random.Generator) -> np.ndarray:
        first, second = (part.tokens for part in split_in_two(np.array(words), rng))
        return np.array([*first, 0, *second])

    assert_follows(sample, uniform_over(cuts))


def test_cuts_give_the_examples_of_table_1() -> None:
    """Both negative examples of ConsSent-C(2) come from one cut of each sentence."""
    crossed = set()
    for seed in range(200):
        rng = generator(seed)
        cut = [split_in_two(np.array(text.split()), rng) for text in ("Maya goes to school .", "She loves it .")]
        crossed.add(tuple(" ".join([*cut[i][0].tokens, *cut[1 - i][1].tokens]) for i in range(2)))
    assert ("Maya it .", "She loves goes to school .") in crossed
    assert len(crossed) == 3 * 2  # cuts of the first and of the second sentence


@settings(max_examples=100)
@given(sentences(), seeds)
def test_dealt_parts_keep_the_order_and_are_never_empty(tokens: np.ndarray, seed: int) -> None:
    assume(len(tokens) >= 2)
    parts = part_at_random(tokens, generator(seed))
    for part in parts:
        assert len(part.tokens) and tokens[part.sources].tolist() == part.tokens.tolist()
        assert (np.diff(part.sources) > 0).all()
    assert sorted(np.concatenate([part.sources for part in parts])) == [*range(len(tokens))]


def test_dealing_is_uniform_over_assignments_without_an_empty_part() -> None:
    subsets = (at for size in range(1, 4) for at in combinations(range(4), size))
    assert_follows(lambda rng: part_at_random(np.arange(4), rng)[0].tokens, uniform_over(subsets))


# Noise


class EveryNumber:
    """Stand-in for a generator that returns every possible number once."""

    def integers(self, high: int, size: int) -> np.ndarray:
        return np.arange(high)


@settings(max_examples=150)
@given(
    weights=st.lists(st.integers(0, 5), min_size=4, max_size=12),
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    special=st.sets(st.integers(0, 3)),
)
def test_noise_follows_token_weights_except_tokens_of_the_sentence(
    weights: list[int], tokens: list[int], special: set[int]
) -> None:
    counts = [0 if i in special or i in tokens else weight for i, weight in enumerate(weights)]
    assume(sum(counts))
    samples = Noise(np.array(weights), special).draw(np.array(tokens), 0, EveryNumber())  # type: ignore[arg-type]
    assert np.bincount(samples, minlength=len(weights)).tolist() == counts
