"""Every objective passes the common checks, and two processes give the gradient of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from experiments.building import Parts
from objectives.gather import global_mean
from tests.checks.objective import check_objective, list_batches
from tests.checks.pairs import OBJECTIVES, open_parts
from tests.objectives.gradients import backward
from tests.two_processes import TwoProcesses


def open_small(objective: str, folder: Path) -> Parts:
    """Builds an objective with a GRU, or with an LSTM where the encoder must not read ahead."""
    return open_parts(folder, objective, "lstm" if objective == "language_model" else "gru")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_passes_the_checks(objective: str, small_files: Path) -> None:
    check_objective(open_small(objective, small_files))


def gradients(rank: int, world: int, objective: str, folder: Path) -> list[dict[str, Tensor]]:
    """Returns, for each task, gradients and loss parts of a batch, of which each process has contiguous rows."""
    torch.manual_seed(0)
    parts = open_small(objective, folder)
    results = []
    for batch in list_batches(parts, rank, world):
        for module in (*parts.encoder.modules(), *parts.objective.modules()):
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        parts.encoder.zero_grad()
        parts.objective.zero_grad()
        loss = parts.objective.double().loss(parts.encoder.double(), batch)
        results.append(backward(loss, world, parts.encoder, parts.objective))
    return results


@pytest.mark.parametrize(
    "objective",
    ["conssent_mt", "declutr with a bank", "gensen", "language_model", "nsp", "pairs", "quick_thoughts", "tsdae"],
)
def test_two_processes_give_the_gradient_of_one(
    objective: str, small_files: Path, two_processes: TwoProcesses
) -> None:
    expected = gradients(0, 1, objective, small_files)
    for result in two_processes.run(gradients, objective, small_files):
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-9)


def test_global_mean_of_one_process() -> None:
    total = torch.tensor(6.0, requires_grad=True)
    scaled, mean, count = global_mean(total, 4)
    scaled.backward()
    assert (float(scaled.detach()), float(mean), float(count)) == (1.5, 1.5, 4.0) and not mean.requires_grad
    assert total.grad is not None and float(total.grad) == 0.25
    assert [float(value) for value in global_mean(torch.zeros(()), 0)] == [0.0, 0.0, 0.0]  # without terms
