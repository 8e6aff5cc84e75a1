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

from data.errors import UserError
from data.randomness import generator
from data.views.perturbations import (
    Noise,
    delete,
    insert,
    part_at_random,
    permute,
    replace,
    split_in_two,
)

SPECIAL = (0, 1, 2)
VOCABULARY = 20
NOISE = Noise(np.ones(VOCABULARY), SPECIAL)
Distribution = dict[tuple[int, ...], float]


@st.composite
def sentences(draw: st.DrawFn) -> np.ndarray:
    """Draws up to 12 tokens of up to 9 kinds, read-only and of the integer type of a store."""
    kinds = draw(st.integers(1, 9))
    tokens = np.array(draw(st.lists(st.integers(3, 2 + kinds), min_size=1, max_size=12)), dtype=np.uint16)
    tokens.flags.writeable = False
    return tokens


ks = st.integers(1, 6)
seeds = st.integers(0, 2**32)


def is_subsequence(part: np.ndarray, tokens: np.ndarray) -> bool:
    rest = iter(tokens.tolist())
    return all(token in rest for token in part.tolist())


def uniform_over(outcomes: Iterable[tuple[int, ...]]) -> Distribution:
    """Returns the distribution of uniformly drawn ``outcomes``; probabilities of equal ones add up."""
    counts = Counter(outcomes)
    return {outcome: count / counts.total() for outcome, count in counts.items()}


def assert_follows(
    draw: Callable[[np.random.Generator], np.ndarray], expected: Distribution, count: int = 4000
) -> None:
    """Asserts that samples follow the distribution, by their support and a chi-square test."""
    rng = generator(7)
    seen = Counter(tuple(draw(rng).tolist()) for _ in range(count))
    assert set(seen) <= set(expected)
    pvalue = stats.chisquare([seen[o] for o in expected], [p * count for p in expected.values()]).pvalue
    assert pvalue > 1e-3


# Deletion (D)


@settings(max_examples=100)
@given(sentences(), ks, seeds)
def test_deletion_keeps_the_other_tokens_in_order(tokens: np.ndarray, k: int, seed: int) -> None:
    assume(len(tokens) > k)
    shorter, sources = delete(tokens, k, generator(seed))
    assert (
        tokens[sources].tolist() == shorter.tolist()
        and len(shorter) == len(tokens) - k
        and is_subsequence(shorter, tokens)
    )


def test_deleted_positions_are_uniform() -> None:
    tokens = np.arange(5)
    expected = uniform_over(combinations(range(5), 3))
    assert_follows(lambda rng: delete(tokens, 2, rng).tokens, expected)


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


# Insertion (I)


@settings(max_examples=100)
@given(sentences(), ks, seeds)
def test_insertion_keeps_the_sentence_and_adds_tokens_not_in_it(tokens: np.ndarray, k: int, seed: int) -> None:
    longer, sources = insert(tokens, k, generator(seed), NOISE)
    assert sources[sources >= 0].tolist() == [*range(len(tokens))]
    assert np.isin(longer, tokens).tolist() == (sources >= 0).tolist()
    new = longer[~np.isin(longer, tokens)]
    assert len(longer) == len(tokens) + k and len(new) == k
    assert longer[np.isin(longer, tokens)].tolist() == tokens.tolist()
    assert not np.isin(new, SPECIAL).any() and (new < VOCABULARY).all()


def test_the_jth_inserted_token_is_uniform_over_n_plus_j_gaps() -> None:
    outcomes = []
    for gaps in product(range(3), range(4), range(5)):
        row = [3, 4]
        for gap in gaps:
            row.insert(gap, 8)
        outcomes.append(tuple(row))
    always_8 = Noise(np.arange(9) == 8)
    assert_follows(lambda rng: insert(np.array([3, 4]), 3, rng, always_8).tokens, uniform_over(outcomes))


def test_inserted_tokens_are_independent() -> None:
    noise = Noise(np.array([0, 0, 0, 5, 1, 3]))  # without the sentence's 3: P(4) = 1/4, P(5) = 3/4
    single = {4: 0.25, 5: 0.75}
    expected: Distribution = {(a, b): single[a] * single[b] for a in single for b in single}
    assert_follows(lambda rng: noise.draw(np.array([3, 3]), 2, rng), expected)


# Replacement (R)


@settings(max_examples=100)
@given(sentences(), ks, seeds)
def test_replacement_changes_k_positions_to_tokens_not_in_the_sentence(
    tokens: np.ndarray, k: int, seed: int
) -> None:
    assume(len(tokens) >= k)
    replaced, sources = replace(tokens, k, generator(seed), NOISE)
    changed = replaced != tokens
    assert sources.tolist() == np.where(changed, -1, np.arange(len(tokens))).tolist()
    assert changed.sum() == k
    assert not np.isin(replaced[changed], [*tokens, *SPECIAL]).any()


def test_replaced_positions_are_uniform() -> None:
    always_8 = Noise(np.arange(9) == 8)
    outcomes = [tuple(8 if i in at else i for i in range(5)) for at in combinations(range(5), 2)]
    assert_follows(lambda rng: replace(np.arange(5), 2, rng, always_8).tokens, uniform_over(outcomes))


def test_tokens_beyond_a_stores_type_are_kept() -> None:
    always_70_000 = Noise(np.arange(70_001) == 70_000)
    tokens = np.array([5, 6], dtype=np.uint16)
    assert replace(tokens, 2, generator(0), always_70_000).tokens.tolist() == [70_000] * 2
    assert insert(tokens, 1, generator(0), always_70_000).tokens.max() == 70_000


# Splits (C and N)


@settings(max_examples=100)
@given(sentences(), seeds)
def test_a_cut_leaves_one_token_before_it_and_two_after(tokens: np.ndarray, seed: int) -> None:
    assume(len(tokens) >= 3)
    first, second = (part.tokens for part in split_in_two(tokens, generator(seed)))
    assert len(first) >= 1 and len(second) >= 2
    assert np.concatenate([first, second]).tolist() == tokens.tolist()


@pytest.mark.parametrize("n", [4, 5, 9])
def test_cuts_are_uniform_over_all_cuts(n: int) -> None:
    w = {position: 10 + position for position in range(1, n + 1)}  # w_1 .. w_n, numbered as in the paper
    cuts = []
    for i in range(2, n):  # 1 < i < n
        before, after = [w[j] for j in range(1, i)], [w[j] for j in range(i, n + 1)]
        cuts.append((*before, 0, *after))

    def sample(rng: np.random.Generator) -> np.ndarray:
        first, second = (part.tokens for part in split_in_two(np.array(list(w.values())), rng))
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
    first, second = (part.tokens for part in parts)
    assert all(tokens[part.sources].tolist() == part.tokens.tolist() for part in parts)
    assert len(first) and len(second) and is_subsequence(first, tokens) and is_subsequence(second, tokens)
    assert sorted([*first.tolist(), *second.tolist()]) == sorted(tokens.tolist())


def test_dealing_is_uniform_over_assignments_without_an_empty_part() -> None:
    tokens = np.arange(4)
    expected = uniform_over(at for size in range(1, 4) for at in combinations(range(4), size))
    assert_follows(lambda rng: part_at_random(tokens, rng)[0].tokens, expected)


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
    expected = [0 if i in special or i in tokens else weight for i, weight in enumerate(weights)]
    assume(sum(expected))
    drawn = Noise(np.array(weights), special).draw(np.array(tokens), 0, EveryNumber())  # type: ignore[arg-type]
    assert np.bincount(drawn, minlength=len(weights)).tolist() == expected


def test_noise_without_an_eligible_token_is_refused() -> None:
    noise = Noise(np.array([3, 3, 1, 2]), special_ids=(0, 1))
    with pytest.raises(UserError):
        noise.draw(np.array([3, 2, 2]), 1, generator(0))


# All views


def test_the_shortest_allowed_sentences_are_accepted() -> None:
    rng = generator(0)
    assert len(delete(np.array([5, 6]), 1, rng).tokens) == 1
    assert permute(np.array([5, 6]), 2, rng).tokens.tolist() == [6, 5]
    assert len(insert(np.array([5]), 5, rng, NOISE).tokens) == 6
    assert 5 not in replace(np.array([5]), 1, rng, NOISE).tokens
    assert [part.tokens.tolist() for part in split_in_two(np.array([5, 6, 7]), rng)] == [[5], [6, 7]]
    assert sorted(part.tokens.tolist() for part in part_at_random(np.array([5, 6]), rng)) == [[5], [6]]
