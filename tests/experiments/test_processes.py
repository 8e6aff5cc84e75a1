"""Two processes average their gradients, also of parameters that only one of them used."""

from __future__ import annotations

from unittest.mock import patch

import torch
from torch import Tensor, nn

from experiments import processes
from experiments.processes import Processes
from tests.two_processes import TwoProcesses


@patch.object(processes, "BUCKET", 3)  # averages in several calls
def steps(rank: int, world: int) -> list[list[Tensor]]:
    """Returns the gradients of three parameters in three steps.

    The second parameter is used in the second step by the second process only, and the third never.
    """
    group = Processes(world)
    weights = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(1))]
    gradients = []
    for step in range(3):
        for weight in weights:
            weight.grad = None
        (weights[0].sum() * (10 * step + rank)).backward()
        if step == 1 and rank == 1:
            (weights[1].sum() * 6).backward()
        stop = group.average_gradients(weights, rank == 1 and step == 2)
        assert stop == (step == 2 and world == 2)
        gradients.append([torch.tensor([]) if weight.grad is None else weight.grad.clone() for weight in weights])
    return gradients


def test_gradients_are_averaged_over_the_parameters_used_in_each_step(two_processes: TwoProcesses) -> None:
    for results in two_processes.run(steps):
        for step, (first, second, third) in enumerate(results):
            torch.testing.assert_close(first, torch.full((3,), 10.0 * step + 0.5))
            torch.testing.assert_close(second, torch.full((2, 2), 3.0) if step == 1 else torch.tensor([]))
            assert third.numel() == 0


def test_gradients_of_a_single_process_are_unchanged() -> None:
    assert [step[0][0].item() for step in steps(0, 1)] == [0.0, 10.0, 20.0]
