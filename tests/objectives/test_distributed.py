"""Two processes give the one-process gradient of the same global batch: masks, bank and MLM's count included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed, multiprocessing

from data.randomness import generator
from objectives.declutr import Declutr
from tests.tiny import FORMAT, TinyEncoder, documents

BATCH, STEPS = 6, 3


def train(rank: int, world: int, legacy: bool) -> list[dict[str, Tensor]]:
    """Gradients (averaged over processes) and loss parts of a few steps; rank takes contiguous rows."""
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
    results = []
    for step in range(STEPS):
        rows = range(step * BATCH + rank * share, step * BATCH + (rank + 1) * share)
        batch = objective.collate([objective.draw(units[i], FORMAT, generator(1, step, i)) for i in rows], FORMAT)
        encoder.zero_grad()
        objective.zero_grad()
        loss = objective.loss(encoder, batch)
        loss.total.backward()
        objective.after_step()
        weights = dict([*encoder.named_parameters(), *objective.named_parameters()])
        result = {name: w.grad.clone() for name, w in weights.items() if w.grad is not None}
        if world > 1:
            for value in result.values():
                distributed.all_reduce(value)
                value /= world
        results.append({**result, **{f"part {k}": v for k, v in loss.parts.items()}})
    assert objective.bank is not None
    results.append({"bank": objective.bank.rows.clone()})
    return results


def worker(rank: int, world: int, folder: str, legacy: bool) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=world)
    torch.save(train(rank, world, legacy), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def two_processes(folder: Path, legacy: bool = False) -> list[list[dict[str, Tensor]]]:
    multiprocessing.spawn(worker, (2, str(folder), legacy), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    single = train(0, 1, legacy=False)
    for rank in two_processes(tmp_path):  # both ranks, so that the queue is the same everywhere
        for ours, expected in zip(rank, single, strict=True):
            assert set(ours) == set(expected)
            for name, value in expected.items():
                assert (ours[name] - value).norm() <= 1e-5 * value.norm(), name


def test_legacy_scale_halves_the_contrastive_gradient(tmp_path: Path) -> None:
    single = train(0, 1, legacy=False)[0]
    legacy = two_processes(tmp_path, legacy=True)[0][0]
    # The projection head sees the contrastive loss alone.
    torch.testing.assert_close(legacy["head.layers.0.weight"], single["head.layers.0.weight"] / 2)
    assert not np.allclose(legacy["embedding.weight"], single["embedding.weight"])
