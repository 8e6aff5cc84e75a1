"""Gathering over two processes: gradient and loss equal those of one process with the same global batch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from data.randomness import generator
from objectives.declutr import Declutr
from tests.objectives.two_processes import Results, backward, check_against_one_process, run_two
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

BATCH, STEPS = 6, 3


def train(rank: int, world: int, legacy: bool = False) -> Results:
    """Returns the gradients and loss parts of a few steps, and the bank; each rank gets contiguous rows."""
    torch.manual_seed(0)
    encoder = TinyEncoder().double()
    objective = Declutr(
        batch_size=BATCH,
        min_length=4,
        max_length=16,
        memory_bank=20,
        projection={"width": 4},
        legacy_scale=legacy,
    )
    objective.build(encoder)
    objective = objective.double()
    units = documents(BATCH * STEPS, 100)
    share = BATCH // world
    results: Results = {}
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


def test_two_processes_give_the_gradient_of_one_for_declutr(tmp_path: Path) -> None:
    check_against_one_process(train, tmp_path, rtol=1e-5, atol=1e-9)


def test_legacy_scale_halves_the_contrastive_gradient(tmp_path: Path) -> None:
    single = train(0, 1)["step 0"]
    legacy = run_two(partial(train, legacy=True), tmp_path)[0]["step 0"]
    # Only the contrastive loss depends on the projection head.
    torch.testing.assert_close(legacy["head.layers.0.weight"], single["head.layers.0.weight"] / 2)
    assert not np.allclose(legacy["embedding.weight"], single["embedding.weight"])
