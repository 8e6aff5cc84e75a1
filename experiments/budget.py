"""Budgets: amounts of compute, and the number of steps that follows from one; the clock has no say."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from data.display import duration
from data.ranges import COUNT, MOST, require_range

LENGTHS = {"flops": 1e30, "tokens": COUNT, "steps": COUNT, "epochs": COUNT}  # the most of each
about = duration  # under the name that other commands import
EFFICIENCY = 0.5  # of training against a plain matrix product; for the estimate alone


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Sizes of a run. The first of ``steps``, ``tokens``, ``epochs`` and ``flops`` that is set gives its length.

    Attributes:
        flops: floating-point operations of training.
        tokens: tokens that the encoder sees in training.
        steps: optimiser steps.
        epochs: passes over the corpus.
        min_span, max_span: lengths of spans in tokens.
        documents, sentences: of a micro-batch over all processes, for objectives of either kind.
        min_tokens: that a document must have; None: what the spans need.

    Raises:
        ValueError: if a value is not positive, or all four lengths are None.
    """

    flops: float | None = None
    tokens: float | None = None
    steps: int | None = None
    epochs: float | None = None
    min_span: int
    max_span: int
    documents: int
    sentences: int
    min_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value <= 0:
                raise ValueError(f"budget.{name} must be a positive number. Got {value} instead.")
            require_range(f"budget.{name}", value, 0, LENGTHS.get(name, MOST))
        if all(value is None for value in (self.flops, self.tokens, self.steps, self.epochs)):
            raise ValueError("One of budget.steps, budget.tokens, budget.epochs and budget.flops must be set.")

    def plan(self, *, step_flops: float, step_tokens: float, steps_per_epoch: float) -> Plan:
        """The run that this budget pays for, from what one optimiser step costs."""
        if self.steps is not None:
            steps = self.steps
        elif self.tokens is not None:
            steps = math.ceil(self.tokens / step_tokens)
        elif self.epochs is not None:
            steps = max(1, round(self.epochs * steps_per_epoch))
        else:
            assert self.flops is not None
            steps = max(1, round(self.flops / step_flops))
        return Plan(steps, steps * step_tokens, steps / steps_per_epoch, steps * step_flops)


@dataclass(frozen=True)
class Plan:
    """What a run will do: optimiser steps, and the tokens, epochs and floating-point operations in them."""

    steps: int
    tokens: float
    epochs: float
    flops: float


def flops_per_second(device: torch.device, dtype: torch.dtype, seconds: float = 0.3) -> float:
    """What a matrix product reaches here, measured for about ``seconds``."""
    size = 4096 if device.type == "cuda" else 1024
    a = torch.ones(size, size, device=device, dtype=dtype)

    def run(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            product = a @ a
        product[0, 0].item()  # waits for the device
        return (time.perf_counter() - start) / times

    run(1)
    times = max(1, round(seconds / run(1)))
    return 2 * size**3 / run(times)
