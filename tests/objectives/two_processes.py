"""Runs the same computation on two processes and on one with the same global batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn

from objectives.base import Loss

Found = dict[str, dict[str, Tensor]]  # by case: gradients and parts by name
Gradients = Callable[[int, int], Found]  # of a rank and the number of processes; a function of a module


def backward(loss: Loss, world: int, *modules: nn.Module) -> dict[str, Tensor]:
    """Returns the gradients of all weights, averaged over processes as in training, and the loss parts."""
    loss.total.backward()
    weights = [named for module in modules for named in module.named_parameters()]
    found = {name: weight.grad.clone() for name, weight in weights if weight.grad is not None}
    if world > 1:
        for gradient in found.values():
            distributed.all_reduce(gradient)
            gradient /= world
    return found | {f"part {name}": value for name, value in loss.parts.items()}


def check(gradients: Gradients, folder: Path, *, rtol: float = 1e-9, atol: float = 1e-12) -> Found:
    """Requires that each of two processes computes what a single one does; returns the latter."""
    single = gradients(0, 1)
    for found in run_two(gradients, folder):
        assert set(found) == set(single)
        for case, expected in single.items():
            assert set(found[case]) == set(expected)
            for name, value in expected.items():
                torch.testing.assert_close(found[case][name], value, rtol=rtol, atol=atol)
    return single


def run_two(gradients: Gradients, folder: Path) -> list[Found]:
    """Returns what each of two processes computes; ``folder`` is for their files."""
    multiprocessing.spawn(_worker, (2, gradients, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def _worker(rank: int, world: int, gradients: Gradients, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=world)
    torch.save(gradients(rank, world), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()
