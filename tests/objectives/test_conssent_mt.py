"""ConsSent's multitask objective: order of the tasks, the encoder and classifier that each trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from encoders.base import Encoder
from encoders.concatenated import Concatenated
from objectives.conssent_mt import TASKS, ConsSentMT
from tests.objectives.gradients import sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

BATCH = 6


class TwoEncoders(Concatenated):
    """Two tiny encoders; ``Concatenated.__init__`` is skipped, as it compares tokenizers, which they lack."""

    def __init__(self, *widths: int) -> None:
        Encoder.__init__(self)
        self.members = nn.ModuleList(map(TinyEncoder, widths))  # type: ignore[assignment]
        self.format, self.dimension = FORMAT, sum(widths)


def build(**settings: Any) -> tuple[ConsSentMT, TwoEncoders]:
    torch.manual_seed(0)
    encoder = TwoEncoders(6, 8).double()
    objective = ConsSentMT(**{"batch_size": BATCH, "k": 2, "classifier_width": 5, **settings})
    for task in objective.tasks.values():
        task.counts = np.ones(30, np.int64)
    objective.build(encoder)
    return objective.double(), encoder


def test_encoders_alternate_and_each_cycles_through_its_tasks() -> None:
    objective, _ = build()
    names = [objective.task_at(step, seed=1) for step in range(32)]
    assert "".join(names[::2]) == "DPIR" * 4 and "".join(names[1::2]) == "NC" * 8
    assert set(names) == set(objective.tasks) == set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_trains_only_its_encoder_and_its_classifier(task: str) -> None:
    objective, encoder = build()
    batch = sample_batch(objective.tasks[task], documents(BATCH, 12))
    objective.loss(encoder, batch).total.backward()
    trained = {name.split(".")[1] for name, weight in objective.named_parameters() if weight.grad is not None}
    assert trained == ({task} if task in "DPIR" else set())
    used = int(task in "NC")
    assert all(weight.grad is not None for weight in encoder.members[used].parameters())
    assert all(weight.grad is None for weight in encoder.members[1 - used].parameters())
