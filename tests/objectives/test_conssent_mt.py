"""ConsSent's multitask objective: order of the tasks, the encoder and classifier that each trains, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from data.batch import Batch
from data.loader import Loader, MultiTaskLoader
from data.randomness import generator
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from objectives.conssent_mt import TASKS, ConsSentMT
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

BATCH = 6


class TwoEncoders(Concatenated):
    """Two tiny encoders; ``Concatenated.__init__`` is skipped, as it compares tokenizers, which they lack."""

    def __init__(self) -> None:
        Encoder.__init__(self)
        self.members = nn.ModuleList([TinyEncoder(), TinyEncoder(width=8)])  # type: ignore[assignment]
        self.format = FORMAT
        self.dimension = 14


def build(**settings: Any) -> tuple[ConsSentMT, TwoEncoders]:
    torch.manual_seed(0)
    encoder = TwoEncoders().double()
    objective = ConsSentMT(**{"batch_size": BATCH, "k": 2, "classifier_width": 5, **settings})
    objective.fit_to_corpus(documents(50, 14), np.arange(50))
    objective.build(encoder)
    return objective.double(), encoder


def batch_of(objective: ConsSentMT, name: str) -> Batch:
    task = objective.tasks[name]
    units = documents(BATCH, 12)
    return task.collate([task.sample(unit, FORMAT, generator(i)) for i, unit in enumerate(units)], FORMAT)


def test_encoders_alternate_and_each_cycles_through_its_tasks() -> None:
    objective, _ = build()
    names = [objective.task_at(step, seed=1) for step in range(32)]
    assert "".join(names[::2]) == "DPIR" * 4 and "".join(names[1::2]) == "NC" * 8
    assert set(names) == set(objective.tasks) == set(TASKS)


def test_the_loader_follows_the_cycle() -> None:
    objective, _ = build()
    units = documents(30, 12)
    loaders = {
        name: Loader(units, range(30), task, FORMAT, batch_size=task.batch_size, seed=1)
        for name, task in objective.tasks.items()
    }
    loader = MultiTaskLoader(loaders, lambda step: objective.task_at(step, 1))
    assert [loader.batch(step).task for step in range(9)] == [*"DNPCINRC", "D"]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_trains_only_its_encoder_and_its_classifier(task: str) -> None:
    objective, encoder = build()
    loss = objective.loss(encoder, batch_of(objective, task))
    assert tuple(loss.parts) == (task, f"{task}_accuracy")
    loss.total.backward()
    trained = {name.split(".")[1] for name, weight in objective.named_parameters() if weight.grad is not None}
    assert trained == ({task} if task in "DPIR" else set())
    used = int(task in "NC")
    assert all(weight.grad is not None for weight in encoder.members[used].parameters())
    assert all(weight.grad is None for weight in encoder.members[1 - used].parameters())


@pytest.mark.parametrize("task", TASKS)
def test_the_loss_of_a_task_equals_that_of_conssent(task: str) -> None:
    objective, encoder = build()
    batch = batch_of(objective, task)
    expected = objective.tasks[task].loss(encoder.members[int(task in "NC")], batch)
    assert objective.loss(encoder, batch).total == expected.total


def test_tasks_have_k_and_requirements_of_their_own() -> None:
    objective, _ = build(k=4)
    assert {task.k for task in objective.tasks.values()} == {4}
    assert {name: task.requirements.min_tokens for name, task in objective.tasks.items()} == {
        "D": 5, "P": 4, "I": 1, "R": 4, "N": 2, "C": 3,
    }  # fmt: skip
    needs = objective.requirements
    assert (needs.encoders, needs.unit, needs.min_tokens, needs.different_tokens) == (2, "sentence", 5, True)


def test_parts_are_named_and_measured() -> None:
    objective, encoder = build()
    measured = objective.dev_metrics(encoder, [batch_of(objective, task) for task in TASKS])
    assert tuple(measured) == tuple(f"dev_{name}" for name in objective.part_names)
    assert objective.part_names[:3] == ("D", "D_accuracy", "P") and len(objective.part_names) == 12


def test_step_flops_are_the_mean_over_a_cycle() -> None:
    objective, encoder = build()
    cost = {name: task.step_flops(encoder.members[int(name in "NC")]) for name, task in objective.tasks.items()}
    expected = (cost["D"] + cost["P"] + cost["I"] + cost["R"] + 2 * cost["N"] + 2 * cost["C"]) / 8
    assert objective.step_flops(encoder) == pytest.approx(expected) and expected > 0


def test_token_counts_are_shared_by_all_tasks() -> None:
    objective, _ = build()
    assert len({id(task.statistics.token_counts) for task in objective.tasks.values()}) == 1
    assert {task.statistics.mean_length for task in objective.tasks.values()} == {14.0}


def test_sampling_and_collating_are_left_to_the_tasks() -> None:
    objective, _ = build()
    with pytest.raises(TypeError, match="Each task samples"):
        objective.sample(np.arange(5, 15), FORMAT, generator(0))
    with pytest.raises(TypeError, match="Each task collates"):
        objective.collate([], FORMAT)


def test_facts_name_the_tasks_and_negatives() -> None:
    assert build()[0].facts() == {"task": "MT(2)", "negatives per anchor": 1}
