"""SimCSE: the loss against sentence-transformers', dropout, views, refusals."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

from data.errors import UserError
from data.randomness import generator
from objectives.base import Requirements
from objectives.functional import nt_xent
from objectives.simcse import SimCSE, one_directional
from tests.checks.pairs import open_parts
from tests.objectives.gradients import assert_same_gradient, sample_batch, vector_pairs
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

BATCH = 8


def build(dropout: float = 0.3, **arguments: Any) -> tuple[SimCSE, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    objective = SimCSE(**{"batch_size": BATCH, **arguments})
    objective.build(encoder)
    return objective.double(), encoder


def ranking_loss(first: Tensor, second: Tensor, temperature: float, *directions: Any) -> Tensor:
    """Returns sentence-transformers' loss of the given vectors."""
    loss = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=1 / temperature, directions=directions)  # type: ignore[arg-type]
    return loss.compute_loss_from_embeddings([first, second], labels=torch.empty(0))


@settings(max_examples=40)
@given(st.integers(2, 12), st.sampled_from([0.01, 0.05, 0.5, 1.0]), st.integers(0, 1000))
def test_value_and_gradient_equal_sentence_transformers(n: int, temperature: float, seed: int) -> None:
    first, second = vector_pairs(n, width=6, seed=seed)
    ours, _ = one_directional(first, second, temperature=temperature)
    theirs = ranking_loss(first, second, temperature, "query_to_doc")
    assert_same_gradient(ours, theirs, (first, second), atol=1e-10, rtol=1e-8)


@settings(max_examples=40)
@given(st.integers(2, 12), st.sampled_from([0.01, 0.05, 0.5, 1.0]), st.integers(0, 1000))
def test_nt_xent_is_the_mean_of_both_directions_with_more_negatives(n: int, temperature: float, seed: int) -> None:
    first, second = vector_pairs(n, width=6, seed=seed)
    both = [
        ranking_loss(one, other, temperature, "query_to_doc", "query_to_query")
        for one, other in ((first, second), (second, first))
    ]
    ours = nt_xent(first, second, temperature=temperature)
    assert_same_gradient(ours, (both[0] + both[1]) / 2, (first, second), atol=1e-10, rtol=1e-8)


def test_loss_and_accuracy_solved_by_hand() -> None:
    first = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    second = torch.tensor([[0.5, 0.0], [3.0, 0.0]], dtype=torch.float64)
    loss, accuracy = one_directional(first, second, temperature=0.5)
    # Both cosines are 1 in the first row and 0 in the second; ties count as errors.
    assert loss.item() == pytest.approx(math.log(2)) and accuracy.item() == 0
    loss, accuracy = one_directional(first, first, temperature=0.5)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2))) and accuracy.item() == 1


def test_the_loss_equals_that_of_two_dropout_passes() -> None:
    objective, encoder = build()
    batch = sample_batch(objective, [unit[: 6 + i % 9] for i, unit in enumerate(documents(BATCH, 14))])
    assert batch.n_tokens == 2 * int(batch.tokens["first"].lengths.sum())
    torch.manual_seed(7)
    loss = objective.loss(encoder, batch)
    torch.manual_seed(7)
    block = batch.tokens["first"].rows(torch.arange(BATCH).repeat(2))
    linear = next(part for part in objective.modules() if isinstance(part, torch.nn.Linear))
    vectors = torch.tanh(encoder(block).sentence @ linear.weight.T + linear.bias)
    first, second = vectors[:BATCH], vectors[BATCH:]
    assert not torch.allclose(first, second)
    torch.testing.assert_close(loss.total, ranking_loss(first, second, 0.05, "query_to_doc"))
    torch.testing.assert_close(loss.parts["contrastive"], loss.total.detach())


def test_sentences_are_cut_with_their_special_tokens() -> None:
    objective, _ = build(max_length=9)
    [first], [second] = objective.sample(np.arange(5, 25), FORMAT, generator(0)).rows.values()
    assert first.tolist() == second.tolist() == [0, *range(5, 12), 2]
    assert objective.sample(np.arange(5, 8), FORMAT, generator(0)).rows["first"][0].tolist() == [0, 5, 6, 7, 2]


def draw(views: str, length: int, count: int, **arguments: Any) -> list[list[np.ndarray]]:
    """Returns the content of both views, drawn from tokens 5, 6, .. 5 + ``length`` - 1."""
    objective, unit, results = SimCSE(views=views, **arguments), np.arange(5, 5 + length), []  # type: ignore[arg-type]
    objective.begins = np.ones(length + 5, dtype=bool)
    for seed in range(count):
        example, again = (objective.sample(unit, FORMAT, generator(seed)) for _ in range(2))
        rows, repeated = ([row for [row] in each.rows.values()] for each in (example, again))
        assert all(map(np.array_equal, rows, repeated))
        assert {(row[0], row[-1]) for row in rows} == {(0, 2)}
        results.append([row[1:-1] for row in rows])
        for row, (sources,) in zip(results[-1], example.sources.values(), strict=True):
            assert row[sources >= 0].tolist() == unit[sources[sources >= 0]].tolist()
    return results


@pytest.mark.parametrize("length", [1, 4, 12, 30, 50])
def test_tokens_are_repeated_as_in_the_published_program(length: int) -> None:
    results = draw("repetition", length, 200)
    total = min(length, 30) + 2
    # random.randrange(min(10, int(dup_rate * input_len))), if that product is not 0
    numbers = range(min(10, int(0.32 * total))) if int(0.32 * total) > 0 else range(1)
    assert {len(second) - len(first) for first, second in results} == {*numbers}
    for first, second in results:
        assert len(first) == total - 2 and [token for token, _ in groupby(second)] == first.tolist()
        assert all(len([*copies]) < 3 for _, copies in groupby(second))


def test_words_are_deleted_from_both_views() -> None:
    results = draw("deletion", 30, 200, rate=0.2)
    assert np.mean([[len(first), len(second)] for first, second in results]) == pytest.approx(24, abs=0.3)
    assert sum(first.tolist() == second.tolist() for first, second in results) < 5


def test_crops_have_half_the_tokens_and_spans_are_near_each_other() -> None:
    crops, spans = draw("crops", 50, 50), draw("spans", 90, 300)
    assert {len(view) for result in crops for view in result} == {15} and len(draw("crops", 1, 1)[0][0]) == 1
    assert {len(view) for result in spans for view in result} == {30}
    distances = {second[0] - first[0] for first, second in spans}
    assert {*range(-30, 31)} >= distances and len(distances) > 50
    assert SimCSE(views="spans").requirements == Requirements("document", 64)


def test_the_second_sentence_follows_in_the_document(small_files: Path) -> None:
    parts = open_parts(small_files, "simcse sentences", "gru")
    data, store = parts.task_data[""], parts.store
    for i in data.train.indices[:50].tolist():
        example = parts.objective.sample(data.units[i], parts.encoder.format, generator(0))
        assert store.documents[i] == store.documents[i + 1] and not example.sources
        assert [row.tolist() for [row] in example.rows.values()] == [
            parts.encoder.format.wrap(store[number][:30]).tolist() for number in (i, i + 1)
        ]


def test_an_encoder_without_dropout_is_refused_and_any_other_left_unchanged() -> None:
    with pytest.raises(UserError):
        SimCSE().check_encoder(TinyEncoder(dropout=0.0))
    SimCSE(views="crops").check_encoder(TinyEncoder(dropout=0.0))
    encoder = TinyEncoder(dropout=0.01).eval()
    state = torch.get_rng_state()
    SimCSE().check_encoder(encoder)
    assert not encoder.training and torch.equal(torch.get_rng_state(), state)
