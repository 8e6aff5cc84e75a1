"""ConsSent's six tasks: examples, losses against loops, several processes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Batch, Tokens
from data.errors import UserError
from data.loader import Loader
from data.randomness import generator
from objectives.conssent import ConsSent, Parts, Single, TaskName
from tests.objectives.two_processes import Results, backward, check_against_one_process
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

TASKS: tuple[TaskName, ...] = ("D", "P", "I", "R", "C", "N")
SINGLE, PAIRS = TASKS[:4], TASKS[4:]
BATCH = 8


def build(task: str, dropout: float = 0.0, **settings: Any) -> tuple[ConsSent, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    arguments = {"batch_size": BATCH, "k": 3, "classifier_width": 5, "nonlinearity": "tanh", **settings}
    objective = ConsSent(task=task, **arguments)  # type: ignore[arg-type]
    objective.fit_to_corpus(documents(50, 14), np.arange(50))
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: ConsSent, count: int = BATCH, step: int = 0) -> Batch:
    units = [unit[: 6 + i % 9] for i, unit in enumerate(documents(count, 14))]
    examples = [objective.sample(unit, FORMAT, generator(0, step, i)) for i, unit in enumerate(units)]
    return objective.collate(examples, FORMAT)


def content(row: np.ndarray) -> list[int]:
    assert (row[0], row[-1], row.dtype) == (0, 2, np.int64)
    return row[1:-1].tolist()


# Examples


def test_an_example_is_a_sentence_or_a_perturbation_of_it() -> None:
    unit = np.arange(5, 17)

    def unchanged(tokens: list[int]) -> int:
        """Returns the number of unchanged positions of a perturbed sentence of the same length."""
        return int((np.array(tokens) == unit).sum())

    is_perturbed: dict[str, Callable[[list[int]], bool]] = {
        "D": lambda tokens: len(tokens) == 9 and tokens == sorted(tokens) and set(tokens) < set(unit),
        "P": lambda tokens: sorted(tokens) == unit.tolist() and unchanged(tokens) in (9, 10),
        "I": lambda tokens: len(tokens) == 15 and [t for t in tokens if t in unit] == unit.tolist(),
        "R": lambda tokens: unchanged(tokens) == 9 and len([t for t in tokens if t in unit]) == 9,
    }
    for task in SINGLE:
        objective, _ = build(task)
        classes = set()
        for seed in range(60):
            example = objective.sample(unit, FORMAT, generator(seed))
            assert isinstance(example, Single)
            tokens = content(example.tokens)
            assert tokens == unit.tolist() if example.consistent else is_perturbed[task](tokens)
            classes.add(example.consistent)
        assert classes == {True, False}


def test_parts_make_up_the_sentence() -> None:
    unit = np.arange(5, 17)
    for task in PAIRS:
        example = build(task)[0].sample(unit, FORMAT, generator(1))
        assert isinstance(example, Parts)
        first, second = content(example.first), content(example.second)
        assert sorted(first + second) == unit.tolist()
        assert task == "N" or first + second == unit.tolist()


@pytest.mark.parametrize("consistent", [0.5, 0.2])
def test_the_share_of_unperturbed_sentences(consistent: float) -> None:
    objective, _ = build("D", consistent=consistent)
    unit = np.arange(5, 17)
    unperturbed = [objective.sample(unit, FORMAT, generator(seed)).consistent for seed in range(1000)]  # type: ignore[union-attr]
    assert np.mean(unperturbed) == pytest.approx(consistent, abs=0.05)  # at least 3 standard errors


@pytest.mark.parametrize("task", TASKS)
def test_an_example_is_a_function_of_its_arguments(task: str) -> None:
    objective, _ = build(task)
    unit = np.arange(5, 17)
    drawn = [objective.sample(unit, FORMAT, generator(seed)) for seed in range(30)]
    redrawn = [build(task)[0].sample(unit, FORMAT, generator(seed)) for seed in reversed(range(30))]
    assert str(drawn) == str(redrawn[::-1])


SHORTEST = {"D": 4, "P": 3, "I": 1, "R": 3, "C": 3, "N": 2}


@pytest.mark.parametrize("task", TASKS)
def test_sentences_that_a_task_cannot_use_are_left_out(task: str) -> None:
    objective, shortest = build(task, consistent=0.001)[0], SHORTEST[task]
    needs = objective.requirements
    assert (needs.unit, needs.min_tokens, needs.different_tokens) == ("sentence", shortest, task == "P")
    objective.sample(np.arange(5, 5 + shortest), FORMAT, generator(0))


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_has_the_negatives(task: str) -> None:
    assert build(task, k=5)[0].least_batch == (5 if task in PAIRS else 2)


def test_equal_tokens_within_the_encoders_positions_are_refused() -> None:
    objective, _ = build("P")
    unit, short_format = np.array([7] * 6 + [8]), replace(FORMAT, max_length=8)
    with pytest.raises(UserError) as error:
        objective.sample(unit, short_format, generator(0))
    assert error.value.key == "encoder.max_length"
    objective.sample(unit, replace(FORMAT, max_length=9), generator(0))


@pytest.mark.parametrize("task", SINGLE)
def test_sentences_are_cut_before_they_are_perturbed(task: str) -> None:
    objective, _ = build(task, consistent=0.001)
    unit = np.resize(np.arange(5, 20), 1000)
    short_format = replace(FORMAT, max_length=20)
    for seed in range(20):
        row = objective.sample(unit, short_format, generator(seed)).tokens  # type: ignore[union-attr]
        assert len(row) == (17 if task == "D" else 20)
        assert content(row) != unit[: len(row) - 2].tolist()
        if task in ("I", "R"):
            assert sum(token not in unit for token in content(row)) == 3


def test_noise_is_unigram_or_uniform_over_the_vocabulary() -> None:
    units = [np.array([0, 5, 6, 7, 8, 8, 8, 3]), np.array([9, 9, 9])]  # only the first is training text
    drawn = {}
    for noise in ("unigram", "uniform"):
        objective, encoder = build("R", noise=noise, k=1, consistent=0.001)
        objective.fit_to_corpus(units, np.array([0]))
        objective.build(encoder)
        rows = [objective.sample(np.array([5, 6]), FORMAT, generator(seed)) for seed in range(400)]
        drawn[noise] = [t for row in rows for t in content(row.tokens) if t not in (5, 6)]  # type: ignore[union-attr]
    assert set(drawn["unigram"]) == {7, 8}
    assert drawn["unigram"].count(8) == pytest.approx(300, abs=35)
    assert set(drawn["uniform"]) == set(range(7, 30))


def test_token_ids_outside_the_vocabulary_are_refused_where_tokens_are_sampled() -> None:
    for noise in ("unigram", "uniform"):
        objective, encoder = build("R", noise=noise)
        objective.fit_to_corpus([np.arange(31)], np.array([0]))
        with pytest.raises(UserError):
            objective.build(encoder)


# Losses


def test_batches_name_their_task() -> None:
    for task in TASKS:
        objective, _ = build(task)
        batch = batch_of(objective)
        assert (batch.task, batch.size) == (task, BATCH)
        assert set(batch.tokens) == ({"sequence"} if task in SINGLE else {"first", "second"})
        assert all(len(tokens) == BATCH for tokens in batch.tokens.values())


@pytest.mark.parametrize("task", SINGLE)
def test_sequence_loss_equals_its_definition(task: str) -> None:
    objective, encoder = build(task)
    units = documents(BATCH, 12)
    examples = [objective.sample(unit, FORMAT, generator(0, i)) for i, unit in enumerate(units)]
    losses, correct = [], []
    for example in examples:
        assert isinstance(example, Single) and objective.classifier is not None
        vector = encoder(Tokens.pad([example.tokens], FORMAT.pad_id)).sentence[0]
        scores = objective.classifier(vector)
        losses.append(-torch.log_softmax(scores, 0)[int(example.consistent)])
        correct.append(float((scores[1] > scores[0]) == example.consistent))
    loss = objective.loss(encoder, objective.collate(examples, FORMAT))
    torch.testing.assert_close(loss.total, torch.stack(losses).mean())
    torch.testing.assert_close(loss.parts[task], loss.total.detach())
    assert float(loss.parts[f"{task}_accuracy"]) == pytest.approx(np.mean(correct))


@pytest.mark.parametrize("k", [2, 5, BATCH])
@pytest.mark.parametrize("task", PAIRS)
def test_pair_loss_equals_its_definition(task: str, k: int) -> None:
    objective, encoder = build(task, k=k)
    batch = batch_of(objective)
    first, second = (encoder(batch.tokens[name]).sentence for name in ("first", "second"))
    losses, correct = [], []
    for i in range(BATCH):
        own = first[i] @ second[i]
        others = torch.stack([first[i] @ second[(i + j) % BATCH] for j in range(1, k)])
        losses.append(torch.log(torch.exp(own) + torch.exp(others).sum()) - own)
        correct.append(float(own > others.max()))
    loss = objective.loss(encoder, batch)
    torch.testing.assert_close(loss.total, torch.stack(losses).mean())
    torch.testing.assert_close(loss.parts[task], loss.total.detach())
    assert float(loss.parts[f"{task}_accuracy"]) == pytest.approx(np.mean(correct))


@pytest.mark.parametrize("task", TASKS)
def test_gradcheck(task: str) -> None:
    objective, encoder = build(task)
    batch = batch_of(objective, 4)

    def loss(weight: Tensor) -> Tensor:
        with torch.nn.utils.stateless._reparametrize_module(encoder, {"mix.weight": weight}):
            return objective.loss(encoder, batch).total

    assert torch.autograd.gradcheck(loss, (encoder.mix.weight.detach().clone().requires_grad_(),))


@pytest.mark.parametrize("task", TASKS)
def test_parts_are_named_and_measured(task: str) -> None:
    objective, encoder = build(task, dropout=0.3)
    batches = [batch_of(objective, step=step) for step in range(2)]
    assert objective.part_names == (task, f"{task}_accuracy") == tuple(objective.loss(encoder, batches[0]).parts)
    measured = objective.dev_metrics(encoder, batches)
    assert set(measured) == {f"dev_{task}", f"dev_{task}_accuracy"} and encoder.training
    assert measured == objective.dev_metrics(encoder, batches)  # without dropout


@pytest.mark.parametrize("task", TASKS)
def test_half_precision_gives_losses_in_float32(task: str) -> None:
    objective, encoder = build(task)
    objective, encoder = objective.float(), encoder.float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = objective.loss(encoder, batch_of(objective))
    assert {value.dtype for value in (loss.total, *loss.parts.values())} == {torch.float32}


@pytest.mark.parametrize("task", TASKS)
def test_training_learns_the_task(task: str) -> None:
    """Sentences are runs of consecutive ids. The encoder ignores word order, so P alone cannot be learned."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    units = [np.arange(start, start + 9) for start in rng.integers(5, 22, size=200)]
    objective = ConsSent(task=task, batch_size=32, k=3, noise="uniform", nonlinearity="tanh")  # type: ignore[arg-type]
    encoder = TinyEncoder(width=32)
    objective.fit_to_corpus(units, np.arange(200))
    objective.build(encoder)
    loader = Loader(units, range(200), objective, FORMAT, batch_size=32, seed=1)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=3e-3)
    accuracies = []
    for step in range(60):
        loss = objective.loss(encoder, loader.batch(step))
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        accuracies.append(float(loss.parts[f"{task}_accuracy"]))
    accuracy = np.mean(accuracies[-20:])
    if task == "P":
        assert accuracy == pytest.approx(0.5, abs=0.08)  # a permuted sentence differs only in order
    else:
        assert accuracy > (0.5 if task in SINGLE else 1 / 3) + 0.15


# Several processes


def gradients(rank: int, world: int) -> Results:
    """Returns the gradients and loss parts of each task; each rank gets contiguous rows."""
    results: Results = {}
    for task in TASKS:
        objective, encoder = build(task)
        units, share = documents(BATCH, 14), BATCH // world
        rows = range(rank * share, (rank + 1) * share)
        batch = objective.collate([objective.sample(units[i], FORMAT, generator(1, i)) for i in rows], FORMAT)
        results[task] = backward(objective.loss(encoder, batch), world, encoder, objective)
    return results


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    """With k = 3 and four rows a process, some rows have candidates in the other process."""
    check_against_one_process(gradients, tmp_path)


# Cost, facts, refusals


@pytest.mark.parametrize("task", TASKS)
def test_step_flops_follow_the_sampled_tokens(task: str) -> None:
    objective, encoder = build(task, batch_size=400)
    batch = batch_of(objective, 400)
    objective.fit_to_corpus([np.arange(6 + i % 9) for i in range(400)], np.arange(400))
    rows = 400 if task in SINGLE else 0
    head = F.linear(torch.zeros(1, 6), torch.zeros(5, 6)).numel() * 6 + 5 * 5 + 5 * 2  # weights of three layers
    expected = 3 * (encoder.forward_flops(batch.n_tokens, 0) + 2 * rows * head)
    assert objective.step_flops(encoder) == pytest.approx(expected, rel=0.05)


def test_facts_name_the_task_and_its_negatives() -> None:
    assert build("D")[0].facts() == {"task": "D(3)"}
    assert build("N")[0].facts() == {"task": "N(3)", "negatives per anchor": 2}
    assert "1808.04217" in build("N")[0].citation


def test_only_sequence_tasks_have_a_classifier() -> None:
    assert {task for task in TASKS if build(task)[0].state_dict()} == set(SINGLE)


def test_an_encoder_without_room_is_refused() -> None:
    encoder = TinyEncoder(format=replace(FORMAT, max_length=8))
    ConsSent(task="D", k=5).check_encoder(encoder)
    for task, k in (("D", 6), ("I", 6), ("R", 7)):
        with pytest.raises(UserError):
            ConsSent(task=task, k=k).check_encoder(encoder)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"task": "P", "k": 1}, {"task": "C", "k": 1}, {"task": "N", "k": 9}], ids=str
)
def test_the_number_of_candidates_fits_task_and_batch(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        build(**settings)
    assert error.value.key == "objective.k"
