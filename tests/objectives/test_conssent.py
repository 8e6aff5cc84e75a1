"""ConsSent's six tasks: examples, losses against loops, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Tokens
from data.errors import UserError
from data.randomness import generator
from objectives.base import Loss
from objectives.conssent import ConsSent, ConsSentTask
from tests.objectives.gradients import sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

TASKS: tuple[ConsSentTask, ...] = ("D", "P", "I", "R", "C", "N")
SINGLE, PAIRS = TASKS[:4], TASKS[4:]
BATCH = 8


def build(task: str, dropout: float = 0.0, **settings: Any) -> tuple[ConsSent, TinyEncoder]:
    torch.manual_seed(0)
    encoder = TinyEncoder(dropout=dropout).double()
    arguments = {"batch_size": BATCH, "k": 3, "classifier_width": 5, "nonlinearity": "tanh", **settings}
    objective = ConsSent(task=task, **arguments)  # type: ignore[arg-type]
    objective.counts = np.ones(FORMAT.vocab_size, np.int64)
    objective.build(encoder)
    return objective.double(), encoder


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
            tokens = content(example.rows["sequence"][0])
            assert tokens == unit.tolist() if example.numbers["consistent"] else is_perturbed[task](tokens)
            classes.add(example.numbers["consistent"])
        assert classes == {0, 1}


SHORTEST = {"D": 4, "P": 3, "I": 1, "R": 3, "C": 3, "N": 2}


@pytest.mark.parametrize("task", TASKS)
def test_sentences_that_a_task_cannot_use_are_left_out(task: str) -> None:
    objective, shortest = build(task, consistent=0.001)[0], SHORTEST[task]
    needs = objective.requirements
    assert (needs.unit, needs.min_tokens, needs.different_tokens) == ("sentence", shortest, task == "P")
    objective.sample(np.arange(5, 5 + shortest), FORMAT, generator(0))


@pytest.mark.parametrize("task", SINGLE)
def test_sentences_are_cut_before_they_are_perturbed(task: str) -> None:
    objective, _ = build(task, consistent=0.001)
    unit = np.resize(np.arange(5, 20), 1000)
    short_format = replace(FORMAT, max_length=20)
    for seed in range(20):
        row = objective.sample(unit, short_format, generator(seed)).rows["sequence"][0]
        assert len(row) == (17 if task == "D" else 20)
        assert content(row) != unit[: len(row) - 2].tolist()
        if task in ("I", "R"):
            assert sum(token not in unit for token in content(row)) == 3


def test_a_sentence_that_begins_with_one_token_only_stays_as_it_is_if_cut() -> None:
    unit = np.array([5] * 30 + [6])
    example = build("P", consistent=0.001)[0].sample(unit, replace(FORMAT, max_length=20), generator(0))
    assert example.numbers["consistent"] == 1 and {*content(example.rows["sequence"][0])} == {5}


def test_noise_is_unigram_or_uniform_over_the_vocabulary() -> None:
    drawn = {}
    for noise in ("unigram", "uniform"):
        objective, encoder = build("R", noise=noise, k=1, consistent=0.001)
        objective.counts = np.bincount([0, 5, 6, 7, 8, 8, 8, 3], minlength=30)
        objective.build(encoder)
        rows = [objective.sample(np.array([5, 6]), FORMAT, generator(seed)) for seed in range(400)]
        drawn[noise] = [t for row in rows for t in content(row.rows["sequence"][0]) if t not in (5, 6)]
    assert set(drawn["unigram"]) == {7, 8}
    assert drawn["unigram"].count(8) == pytest.approx(300, abs=35)
    assert set(drawn["uniform"]) == set(range(7, 30))


# Losses


def check_loss(task: str, loss: Loss, losses: list[Tensor], correct: list[float]) -> None:
    torch.testing.assert_close(loss.total, torch.stack(losses).mean())
    torch.testing.assert_close(loss.parts[task], loss.total.detach())
    assert float(loss.parts[f"{task}_accuracy"]) == pytest.approx(np.mean(correct))


@pytest.mark.parametrize("task", SINGLE)
def test_sequence_loss_equals_its_definition(task: str) -> None:
    objective, encoder = build(task)
    units = documents(BATCH, 12)
    examples = [objective.sample(unit, FORMAT, generator(0, i)) for i, unit in enumerate(units)]
    losses, correct = [], []
    for example in examples:
        vector = encoder(Tokens.pad([example.rows["sequence"][0]], FORMAT.pad_id)).sentence[0]
        scores = objective.classifier(vector)
        losses.append(-torch.log_softmax(scores, 0)[int(example.numbers["consistent"])])
        correct.append(float((scores[1] > scores[0]) == example.numbers["consistent"]))
    loss = objective.loss(encoder, objective.collate(examples, FORMAT))
    check_loss(task, loss, losses, correct)


@pytest.mark.parametrize("k", [2, 5, BATCH])
@pytest.mark.parametrize("task", PAIRS)
def test_pair_loss_equals_its_definition(task: str, k: int) -> None:
    objective, encoder = build(task, k=k)
    batch = sample_batch(objective, [unit[: 6 + i % 9] for i, unit in enumerate(documents(BATCH, 14))])
    first, second = (encoder(batch.tokens[name]).sentence for name in ("first", "second"))
    losses, correct = [], []
    for i in range(BATCH):
        own = first[i] @ second[i]
        others = torch.stack([first[i] @ second[(i + j) % BATCH] for j in range(1, k)])
        losses.append(torch.log(torch.exp(own) + torch.exp(others).sum()) - own)
        correct.append(float(own > others.max()))
    check_loss(task, objective.loss(encoder, batch), losses, correct)


@pytest.mark.parametrize(
    "settings", [{"task": "P", "k": 1}, {"task": "C", "k": 1}, {"task": "N", "k": 9}], ids=str
)
def test_the_number_of_candidates_fits_task_and_batch(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        build(**settings)
    assert error.value.key == "objective.k"
