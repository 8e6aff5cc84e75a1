"""Runs the same computation on two processes and on one with the same global batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn

from objectives.base import Loss

Results = dict[str, dict[str, Tensor]]  # by case: gradients and loss parts by name
Gradients = Callable[[int, int], Results]  # arguments: rank and number of processes; must be picklable


def backward(loss: Loss, world: int, *modules: nn.Module) -> dict[str, Tensor]:
    """Returns the gradients of all weights, averaged over processes as in training, and the loss parts."""
    loss.total.backward()
    named_weights = [named_weight for module in modules for named_weight in module.named_parameters()]
    gradients = {name: weight.grad.clone() for name, weight in named_weights if weight.grad is not None}
    if world > 1:
        for gradient in gradients.values():
            distributed.all_reduce(gradient)
            gradient /= world
    return gradients | {f"part {name}": value for name, value in loss.parts.items()}


def check_against_one_process(
    gradients: Gradients, folder: Path, *, rtol: float = 1e-9, atol: float = 1e-12
) -> Results:
    """Requires that each of two processes gives the results of a single one, which are returned."""
    single = gradients(0, 1)
    for results in run_two(gradients, folder):
        assert set(results) == set(single)
        for case, expected in single.items():
            assert set(results[case]) == set(expected)
            for name, value in expected.items():
                torch.testing.assert_close(results[case][name], value, rtol=rtol, atol=atol)
    return single


def run_two(gradients: Gradients, folder: Path) -> list[Results]:
    """Returns the results of each of two processes, which are passed through files in ``folder``."""
    multiprocessing.spawn(_worker, (2, gradients, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def _worker(rank: int, world: int, gradients: Gradients, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=world)
    torch.save(gradients(rank, world), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()
