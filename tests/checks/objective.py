"""Checks that every objective passes: ``check_objective``, in the manner of scikit-learn's ``check_estimator``."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from data.batch import Batch
from experiments.building import Parts
from experiments.examples import sample_examples
from objectives.base import evaluating
from objectives.flops import measure_flops

STEPS = 150


def list_batches(parts: Parts, rank: int = 0, world: int = 1) -> list[Batch]:
    """Returns the first batch of each task of the training part, or a process' rows of it."""
    return [loader.batch(0) for loader in parts.loaders("train", 1, rank, world).values()]


def check_objective(parts: Parts) -> None:
    """Runs all checks on newly built ``parts``, which are changed."""
    parts.encoder.double()
    parts.objective.double()
    check_examples(parts)
    check_evaluation(parts)
    check_half_precision(parts)
    assert measure_flops(parts.objective, parts.encoder, parts.batches("train", 1)) > 1000
    check_chance_levels(parts)
    for batch in list_batches(parts):
        check_gradient(parts, batch)
    check_learning(parts)


def check_examples(parts: Parts) -> None:
    """Checks that a batch depends on seed and step only, that its task is known, and that examples are shown."""
    for first, again in zip(list_batches(parts), list_batches(parts), strict=True):
        assert first.size and first.tokens.keys() == again.tokens.keys()
        assert all(torch.equal(block.ids, again.tokens[role].ids) for role, block in first.tokens.items())
    assert parts.objective.tasks.keys() == parts.task_data.keys()
    assert {parts.objective.task_at(step, 1) for step in range(60)} == parts.task_data.keys()
    assert all(sample_examples(parts, task)[0].rows for task in parts.task_data)


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
    modules = nn.ModuleList([parts.encoder, parts.objective])
    start = parameters_to_vector(modules.parameters()).detach()
    direction = torch.randn_like(start)

    def compute_loss(distance: float) -> tuple[nn.Module, Tensor]:
        moved: Any = copy.deepcopy(modules)
        vector_to_parameters(start + distance * direction, moved.parameters())
        torch.manual_seed(0)
        return moved, moved[1].loss(moved[0], batch).total

    moved, loss = compute_loss(0)
    loss.backward()
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in moved.parameters()]
    slope = float(parameters_to_vector(gradients) @ direction)
    difference = (compute_loss(1e-5)[1] - compute_loss(-1e-5)[1]).item()
    assert difference / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-7)


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
