"""Gathering over two processes: gradient, loss and memory bank equal those of one with the same global batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from data.randomness import generator
from objectives.declutr import Declutr
from tests.objectives.gradients import backward
from tests.tiny_encoder import FORMAT, TinyEncoder, documents
from tests.two_processes import TwoProcesses

BATCH, STEPS = 6, 3


def train(rank: int, world: int, legacy: bool = False) -> dict[str, dict[str, Tensor]]:
    """Returns gradients and loss parts of a few steps, and the bank; each rank gets contiguous rows."""
    torch.manual_seed(0)
    encoder = TinyEncoder().double()
    projection = {"width": 4}
    settings = {"batch_size": BATCH, "min_length": 4, "max_length": 16, "memory_bank": 20}
    objective = Declutr(**settings, projection=projection, legacy_scale=legacy)  # type: ignore[arg-type]
    objective.build(encoder)
    objective = objective.double()
    units = documents(BATCH * STEPS, 100)
    share = BATCH // world
    results = {}
    for step in range(STEPS):
        rows = range(step * BATCH + rank * share, step * BATCH + (rank + 1) * share)
        batch = objective.collate(
            [objective.sample(units[i], FORMAT, generator(1, step, i)) for i in rows], FORMAT
        )
        encoder.zero_grad()
        objective.zero_grad()
        loss = objective.loss(encoder, batch)
        results[f"step {step}"] = backward(loss, world, encoder, objective)
    assert objective.bank is not None
    return results | {"bank": {"rows": objective.bank.rows.clone()}}


def test_two_processes_give_the_gradient_of_one(two_processes: TwoProcesses) -> None:
    for result in two_processes.run(train):
        torch.testing.assert_close(result, train(0, 1), rtol=1e-5, atol=1e-9)


def test_legacy_scale_halves_the_contrastive_gradient(two_processes: TwoProcesses) -> None:
    single = train(0, 1)["step 0"]
    legacy = two_processes.run(train, True)[0]["step 0"]
    # Only the contrastive loss depends on the projection head.
    torch.testing.assert_close(legacy["head.layers.0.weight"], single["head.layers.0.weight"] / 2)
    assert not np.allclose(legacy["embedding.weight"], single["embedding.weight"])
