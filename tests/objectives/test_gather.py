"""Gathering over two processes as in the published program (exact gradients: ``test_objectives``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from data.randomness import generator
from objectives.declutr import Declutr
from tests.objectives.gradients import backward
from tests.tiny_encoder import FORMAT, TinyEncoder, documents
from tests.two_processes import TwoProcesses


def compute_gradients(rank: int, world: int, legacy: bool = False) -> dict[str, Tensor]:
    """Returns the gradients of a batch, of which each process has contiguous rows."""
    torch.manual_seed(0)
    encoder, share = TinyEncoder().double(), 6 // world
    settings: dict[str, Any] = {"batch_size": 6, "min_length": 4, "max_length": 16, "projection": {"width": 4}}
    objective = Declutr(**settings, legacy_scale=legacy)
    objective.build(encoder)
    units, rows = documents(6, 100), range(rank * share, rank * share + share)
    batch = objective.double().collate([objective.sample(units[i], FORMAT, generator(0, i)) for i in rows], FORMAT)
    return backward(objective.loss(encoder, batch), world, encoder, objective)


def test_legacy_scale_halves_the_contrastive_gradient(two_processes: TwoProcesses) -> None:
    legacy, single = two_processes.run(compute_gradients, True)[0], compute_gradients(0, 1)
    # Only the contrastive loss depends on the projection head.
    torch.testing.assert_close(legacy["head.layers.0.weight"], single["head.layers.0.weight"] / 2)
