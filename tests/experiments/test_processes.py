"""Two processes average their gradients, also of parameters that only one of them used."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn

from experiments import processes
from experiments.processes import Processes


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
        stop, *used = group.any([rank == 1 and step == 2, *(weight.grad is not None for weight in weights)])
        assert stop == (step == 2 and world == 2)
        group.average_gradients([weight for weight, is_used in zip(weights, used, strict=True) if is_used])
        gradients.append([torch.tensor([]) if weight.grad is None else weight.grad.clone() for weight in weights])
    return gradients


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    processes.BUCKET = 3  # averages in several calls
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=2)
    torch.save(steps(rank, 2), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_gradients_are_averaged_over_the_parameters_used_in_each_step(tmp_path: Path) -> None:
    multiprocessing.spawn(worker, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for step, (first, second, third) in enumerate(found):
            torch.testing.assert_close(first, torch.full((3,), 10.0 * step + 0.5))
            torch.testing.assert_close(second, torch.full((2, 2), 3.0) if step == 1 else torch.tensor([]))
            assert third.numel() == 0


def test_gradients_of_a_single_process_are_unchanged() -> None:
    assert [step[0][0].item() for step in steps(0, 1)] == [0.0, 10.0, 20.0]
