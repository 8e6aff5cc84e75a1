"""Two processes give the gradient of one: language modelling, inference, Quick-Thoughts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing

from data.randomness import generator
from encoders.base import Encoder
from tests.objectives import test_language_model, test_nli, test_quick_thoughts
from tests.tiny import FORMAT


def parts(name: str) -> tuple[Any, Any, Encoder, list[Any]]:
    """Objective, task, encoder, and units of very different lengths."""
    if name == "language_model":
        encoder = test_language_model.gru(False).double()
        objective = test_language_model.built(encoder)
        return objective, objective, encoder, test_language_model.UNITS
    if name == "quick_thoughts":
        units = [unit.sources[0] for unit in test_nli.pairs()]
        choice = test_quick_thoughts.QuickThoughts(batch_size=6)
        return choice, choice, test_quick_thoughts.pair(), units
    inference, tiny = test_nli.built("infersent")
    return inference, inference.tasks["nli"], tiny, test_nli.pairs()


def gradients(name: str, rank: int, world: int) -> dict[str, Tensor]:
    objective, task, encoder, units = parts(name)
    share = len(units) // world
    format = encoder.format if name == "language_model" else FORMAT
    drawn = [task.draw(unit, format, generator(0)) for unit in units[rank * share : (rank + 1) * share]]
    loss = objective.loss(encoder, task.collate(drawn, format))
    loss.total.backward()
    weights = {**dict(encoder.named_parameters()), **dict(objective.named_parameters())}
    found = {key: weight.grad for key, weight in weights.items() if weight.grad is not None}
    if world > 1:
        for gradient in found.values():
            distributed.all_reduce(gradient)
            gradient /= world
    return found | {f"part {key}": value for key, value in loss.parts.items()}


NAMES = ("language_model", "quick_thoughts", "nli")


def worker(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=world)
    for name in NAMES:
        torch.save(gradients(name, rank, world), f"{folder}/{name}-{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    multiprocessing.spawn(worker, (2, str(tmp_path)), nprocs=2)
    for name in NAMES:
        expected = gradients(name, 0, 1)
        for rank in range(2):
            found = torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=True)
            assert set(found) == set(expected)
            for key, value in expected.items():
                torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-12)
