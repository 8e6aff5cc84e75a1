"""Batches, random vectors, and comparisons of losses with their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from data.batch import Batch
from data.randomness import generator
from data.token_format import TokenFormat
from objectives.base import Loss
from tests.tiny_encoder import FORMAT


def sample_batch(objective: Any, units: Iterable[Any], format: TokenFormat = FORMAT, step: int = 0) -> Batch:
    """Returns a batch with an example of each unit."""
    examples = [objective.sample(unit, format, generator(0, step, i)) for i, unit in enumerate(units)]
    return objective.collate(examples, format)


def vector_pairs(count: int, *, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns two blocks of ``count`` random vectors, in float64 and with gradient."""
    rng = torch.Generator().manual_seed(seed)
    draw = torch.randn(2, count, width, generator=rng, dtype=torch.float64)
    return draw[0].requires_grad_(), draw[1].requires_grad_()


def assert_same_gradient(
    loss: Tensor, expected: Tensor, inputs: Sequence[Tensor], *, rtol: float = 1e-7, atol: float = 1e-9
) -> None:
    """Asserts that two losses and their gradients with respect to ``inputs`` are close."""
    torch.testing.assert_close(loss, expected, rtol=rtol, atol=atol)
    pairs = (torch.autograd.grad(total, inputs, retain_graph=True) for total in (loss, expected))
    for gradient, expected_gradient in zip(*pairs, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=rtol, atol=atol)


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
