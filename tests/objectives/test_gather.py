"""Gathering over two processes: gradient and loss equal those of one process with the same global batch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data.randomness import generator
from encoders.base import Encoder
from objectives.declutr import Declutr
from objectives.gather import global_mean
from tests.objectives import test_language_model, test_nli, test_quick_thoughts
from tests.objectives.gensen.small_tasks import nli_pairs
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
        objective.after_step()
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


def baseline(name: str) -> tuple[Any, Any, Encoder, list[Any]]:
    """Returns objective, task, encoder, and units of very different lengths."""
    if name == "language_model":
        encoder = test_language_model.gru(False).double()
        objective = test_language_model.build(encoder)
        return objective, objective, encoder, test_language_model.UNITS
    if name == "quick_thoughts":
        units = [unit.sources[0] for unit in nli_pairs()]
        quick_thoughts = test_quick_thoughts.QuickThoughts(batch_size=6)
        return quick_thoughts, quick_thoughts, test_quick_thoughts.two_encoders(), units
    nli, nli_encoder = test_nli.build("infersent")
    return nli, nli.tasks["nli"], nli_encoder, nli_pairs()


def gradients(rank: int, world: int) -> Results:
    results = {}
    for name in ("language_model", "quick_thoughts", "nli"):
        objective, task, encoder, units = baseline(name)
        share = len(units) // world
        format = encoder.format if name == "language_model" else FORMAT
        samples = [task.sample(unit, format, generator(0)) for unit in units[rank * share : (rank + 1) * share]]
        results[name] = backward(objective.loss(encoder, task.collate(samples, format)), world, encoder, objective)
    return results


def test_two_processes_give_the_gradient_of_one_for_baselines(tmp_path: Path) -> None:
    check_against_one_process(gradients, tmp_path)


def test_global_mean_of_one_process() -> None:
    total = torch.tensor(6.0, requires_grad=True)
    scaled, mean, count = global_mean(total, 4)
    scaled.backward()
    assert (float(scaled.detach()), float(mean), float(count)) == (1.5, 1.5, 4.0) and not mean.requires_grad
    assert total.grad is not None and float(total.grad) == 0.25
    assert [float(value) for value in global_mean(torch.zeros(()), 0)] == [0.0, 0.0, 0.0]  # without terms
