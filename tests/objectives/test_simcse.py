"""SimCSE: the loss against sentence-transformers', dropout, several processes, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from data.batch import Batch
from data.errors import UserError
from data.loader import Loader
from data.randomness import generator
from objectives.functional import nt_xent
from objectives.simcse import SimCSE, one_directional
from tests.objectives.random_vectors import vector_pairs
from tests.objectives.two_processes import Results, backward, check_against_one_process
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

BATCH = 8


def build(dropout: float = 0.3, **arguments: Any) -> tuple[SimCSE, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    objective = SimCSE(**{"batch_size": BATCH, **arguments})
    objective.fit_to_corpus(documents(50, 14), np.arange(50))
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: SimCSE, rows: range = range(BATCH)) -> Batch:
    units = documents(rows.stop, 14)
    examples = [objective.sample(units[i][: 6 + i % 9], FORMAT, generator(0, i)) for i in rows]
    return objective.collate(examples, FORMAT)


def ranking_loss(first: Tensor, second: Tensor, temperature: float, *directions: Any) -> Tensor:
    """Returns sentence-transformers' loss of the given vectors."""
    # Imported here, as the spawned processes do not need it.
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    loss = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=1 / temperature, directions=directions)  # type: ignore[arg-type]
    return loss.compute_loss_from_embeddings([first, second], labels=torch.empty(0))


def assert_same_loss(ours: Tensor, theirs: Tensor, inputs: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    gradients = zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, inputs), strict=True)
    for our_gradient, their_gradient in gradients:
        torch.testing.assert_close(our_gradient, their_gradient, atol=1e-10, rtol=1e-8)


@settings(max_examples=40)
@given(st.integers(2, 12), st.sampled_from([0.01, 0.05, 0.5, 1.0]), st.integers(0, 1000))
def test_value_and_gradient_equal_sentence_transformers(n: int, temperature: float, seed: int) -> None:
    first, second = vector_pairs(n, width=6, seed=seed)
    ours, _ = one_directional(first, second, temperature=temperature)
    assert_same_loss(ours, ranking_loss(first, second, temperature, "query_to_doc"), (first, second))


@settings(max_examples=40)
@given(st.integers(2, 12), st.sampled_from([0.01, 0.05, 0.5, 1.0]), st.integers(0, 1000))
def test_nt_xent_is_the_mean_of_both_directions_with_more_negatives(n: int, temperature: float, seed: int) -> None:
    first, second = vector_pairs(n, width=6, seed=seed)
    both = [
        ranking_loss(one, other, temperature, "query_to_doc", "query_to_query")
        for one, other in ((first, second), (second, first))
    ]
    assert_same_loss(nt_xent(first, second, temperature=temperature), (both[0] + both[1]) / 2, (first, second))


def test_it_differs_from_nt_xent() -> None:
    first, second = vector_pairs(5, width=6, seed=0)
    ours, _ = one_directional(first, second, temperature=0.5)
    assert abs(float((ours - nt_xent(first, second, temperature=0.5)).detach())) > 0.1
    reverse, _ = one_directional(second, first, temperature=0.5)
    assert abs(float((ours - reverse).detach())) > 1e-3


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
    batch = batch_of(objective)
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
    assert tuple(loss.parts) == objective.part_names


def test_sentences_are_cut_with_their_special_tokens() -> None:
    objective, _ = build(max_length=9)
    row = objective.sample(np.arange(5, 25), FORMAT, generator(0))
    assert row.tolist() == [0, *range(5, 12), 2]
    assert objective.sample(np.arange(5, 8), FORMAT, generator(0)).tolist() == [0, 5, 6, 7, 2]


def test_held_out_losses_have_fixed_dropout_and_leave_the_random_state() -> None:
    objective, encoder = build()
    batches = [batch_of(objective)]
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    measured = objective.dev_metrics(encoder, batches)
    assert torch.equal(torch.rand(3), expected)
    assert measured == objective.dev_metrics(encoder, batches) and encoder.training
    assert set(measured) == {"dev_contrastive", "dev_contrastive_accuracy"}
    encoder.dropout.p = 0.0
    assert measured["dev_contrastive"] > objective.dev_metrics(encoder, batches)["dev_contrastive"]


def test_half_precision_gives_losses_in_float32() -> None:
    objective, encoder = build()
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.float().loss(encoder.float(), batch_of(objective))
    assert {value.dtype for value in (loss.total, *loss.parts.values())} == {torch.float32}


def test_training_learns_to_match_sentences() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    units = [np.arange(start, start + 6) for start in rng.integers(5, 24, size=200)]
    objective, encoder = SimCSE(batch_size=16, temperature=0.2), TinyEncoder(width=24, dropout=0.2)
    objective.build(encoder)
    loader = Loader(units, range(200), objective, FORMAT, batch_size=16, seed=1)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=3e-3)
    losses = []
    for step in range(50):
        loss = objective.loss(encoder, loader.batch(step))
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        losses.append(float(loss.parts["contrastive"]))
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.3


# Several processes


def gradients(rank: int, world: int) -> Results:
    """Returns the gradients and loss parts. A row's dropout masks are the same in whichever process it is."""
    objective, encoder = build()
    share = BATCH // world
    masks = torch.rand(2, BATCH, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64) > 0.3

    def forward(tokens: Any) -> Any:
        encoding = TinyEncoder.forward(encoder, tokens)
        mask = masks[:, rank * share : (rank + 1) * share].flatten(0, 1)
        return encoding._replace(sentence=encoding.sentence * mask)

    encoder.dropout.p = 0.0
    encoder.forward = forward  # type: ignore[method-assign]
    loss = objective.loss(encoder, batch_of(objective, range(rank * share, (rank + 1) * share)))
    return {"": backward(loss, world, encoder, objective)}


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    assert len(check_against_one_process(gradients, tmp_path)[""]) == 7


# Cost, facts, refusals


def test_step_flops_follow_the_sampled_tokens() -> None:
    objective, encoder = build(batch_size=400, max_length=12)
    objective.fit_to_corpus([unit[: 6 + i % 9] for i, unit in enumerate(documents(400, 14))], np.arange(400))
    expected = 3 * (encoder.forward_flops(batch_of(objective, range(400)).n_tokens, 0) + 2 * 800 * 36)
    assert objective.step_flops(encoder) == pytest.approx(expected, rel=0.05)


def test_facts_and_requirements() -> None:
    objective, _ = build()
    assert objective.facts() == {"negatives per anchor": BATCH - 1}
    assert objective.requirements.unit == "sentence" and not objective.requirements.mask_token
    assert "SimCSE" in objective.citation


def test_an_encoder_without_dropout_is_refused_and_any_other_left_unchanged() -> None:
    with pytest.raises(UserError) as error:
        SimCSE().check_encoder(TinyEncoder(dropout=0.0))
    assert "\n" not in str(error.value)
    encoder = TinyEncoder(dropout=0.01).eval()
    torch.manual_seed(3)
    SimCSE().check_encoder(encoder)
    assert not encoder.training
    torch.manual_seed(3)
    head = torch.nn.Linear(6, 6)
    objective = SimCSE()
    torch.manual_seed(3)
    objective.check_encoder(encoder)
    objective.build(encoder)
    assert torch.equal(next(iter(objective.parameters())), head.weight)  # check_encoder drew no random number
