"""Checks that every objective passes: ``check_objective``, in the manner of scikit-learn's ``check_estimator``."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from data.batch import Batch
from experiments import building
from experiments.building import Parts
from experiments.config import compose
from experiments.progress import Display
from experiments.settings import Settings
from objectives.base import Multitask, evaluating
from objectives.flops import measure_flops

GRU = ("encoder=gru", "encoder.hidden=6", "encoder.word_size=8", "encoder.min_count=1")
STEPS = 150


def open_parts(folder: Path, *overrides: str) -> Parts:
    """Returns an objective in float64 with its encoder (a GRU) and its data, made from ``folder``/corpus.jsonl."""
    settings = [
        *GRU, "corpus=text", f"corpus.path={folder / 'corpus.jsonl'}", "corpus.dev_fraction=0.2",
        "budget.min_span=4", "budget.max_span=8", "budget.documents=4", "budget.sentences=8", "evaluation=none",
        "budget.min_tokens=null", "device=cpu", f"cache={folder / 'cache'}", f"run_dir={folder / 'run'}",
    ]  # fmt: skip
    config = compose([*settings, *overrides])
    components, display = building.build_components(config), Display(shown=False)
    accelerator = Accelerator(cpu=True)
    parts = building.build_parts(config, components, Settings.of(config), accelerator, display, None)
    parts.encoder.double()
    parts.objective.double()
    return parts


def list_batches(parts: Parts, rank: int = 0, world: int = 1) -> list[Batch]:
    """Returns the first batch of each task of the training part, or a process' rows of it."""
    return [loader.batch(0) for loader in parts.loaders("train", 1, rank, world).values()]


def check_objective(parts: Parts) -> None:
    """Runs all checks on newly built ``parts``, which are changed."""
    check_examples(parts)
    check_evaluation(parts)
    check_half_precision(parts)
    assert measure_flops(parts.objective, parts.encoder, parts.batches("train", 1)) > 1000
    check_chance_levels(parts)
    for batch in list_batches(parts):
        check_gradient(parts, batch)
    check_learning(parts)


def check_examples(parts: Parts) -> None:
    """Checks that a batch depends on seed and step only, and that its task is known."""
    for first, again in zip(list_batches(parts), list_batches(parts), strict=True):
        assert first.size and first.tokens.keys() == again.tokens.keys()
        assert all(torch.equal(block.ids, again.tokens[role].ids) for role, block in first.tokens.items())
    assert parts.objective.tasks.keys() == parts.task_data.keys()
    assert {parts.objective.task_at(step, 1) for step in range(60)} == parts.task_data.keys()
    if isinstance(parts.objective, Multitask):
        with pytest.raises(TypeError):
            parts.objective.collate()


def check_evaluation(parts: Parts) -> None:
    """Checks names of loss parts and metrics; that metrics are without dropout and leave the random state."""
    objective, encoder = parts.objective, parts.encoder
    batches = list_batches(parts)
    names = [name for batch in batches for name in objective.loss(encoder.train(), batch).parts]
    assert {*names} <= {*objective.part_names} and objective.part_names[0] in names
    random = torch.get_rng_state()
    metrics = objective.train().dev_metrics(encoder, batches)
    assert torch.equal(torch.get_rng_state(), random) and encoder.training and objective.training
    assert metrics == objective.dev_metrics(encoder, batches)
    assert {f"dev_{name}" for name in objective.part_names} <= metrics.keys()
    assert all(np.isfinite(value) for value in metrics.values())


def check_half_precision(parts: Parts) -> None:
    """Checks that losses are computed in float32 under autocast, and close to those without it."""
    objective, encoder = copy.deepcopy((parts.objective, parts.encoder))
    objective.float()
    encoder.float()
    for batch in list_batches(parts):
        with evaluating(objective, encoder), torch.autocast("cpu", torch.bfloat16):
            loss = objective.loss(encoder, batch)
        assert {value.dtype for value in (loss.total, *loss.parts.values())} == {torch.float32}
        with evaluating(objective, encoder):
            assert float(objective.loss(encoder, batch).total) == pytest.approx(float(loss.total), rel=0.05)


def check_chance_levels(parts: Parts) -> None:
    """Checks that a loss's chance level is that of an encoder and heads of zeros."""
    objective, encoder = copy.deepcopy((parts.objective, parts.encoder))
    with torch.no_grad():
        for parameter in (*encoder.parameters(), *objective.parameters()):
            parameter.zero_()
    for batch in list_batches(parts):
        levels = objective.chance_levels(batch.size)
        assert all(0 < value < 1 for name, value in levels.items() if name.endswith("_accuracy"))
        assert levels.keys() <= {*objective.part_names}
        for name, value in objective.loss(encoder, batch).parts.items():
            if name in levels and not name.endswith("_accuracy"):
                assert float(value) == pytest.approx(levels[name], abs=1e-5)


def check_gradient(parts: Parts, batch: Batch) -> None:
    """Checks the gradient by the difference of two losses along a random direction of all weights."""
    encoder, objective = copy.deepcopy((parts.encoder, parts.objective))
    weights = [*encoder.parameters(), *objective.parameters()]
    directions = [torch.randn_like(weight) for weight in weights]

    def loss() -> Tensor:
        torch.manual_seed(0)
        return copy.deepcopy(objective).loss(encoder, batch).total

    torch.manual_seed(0)
    state = copy.deepcopy(objective.state_dict())
    objective.loss(encoder, batch).total.backward()
    objective.load_state_dict(state)  # without what a memory bank got
    slope = sum(
        float((weight.grad * direction).sum())
        for weight, direction in zip(weights, directions, strict=True)
        if weight.grad is not None
    )
    values = []
    with torch.no_grad():
        for step in (1e-5, -2e-5):
            for weight, direction in zip(weights, directions, strict=True):
                weight.add_(step * direction)
            values.append(float(loss()))
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7)


def check_learning(parts: Parts) -> None:
    """Checks that steps on the same batches lower their loss by a tenth."""
    objective, encoder = parts.objective.train(), parts.encoder.train()
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=0.02)
    batches, first = list_batches(parts), None
    for _ in range(STEPS):
        loss = torch.stack([objective.loss(encoder, batch).total for batch in batches]).sum()
        first = first or float(loss.detach())
        if float(loss.detach()) < 0.9 * first:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pytest.fail(f"The loss fell from {first} to {float(loss)} only.")
