"""Budgets: amounts of compute, and the number of steps that each pays for, whatever the machine."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from data.errors import UserError
from data.ranges import COUNT, Size

if TYPE_CHECKING:
    import torch  # takes seconds, and only ``flops_per_second`` needs it

Amount = Annotated[float, Field(gt=0, le=COUNT)]
EFFICIENCY = 0.5  # of training, compared with a plain matrix product; only for estimates of time


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Sizes of a run. The first of ``steps``, ``tokens``, ``epochs`` and ``flops`` that is set gives its length.

    Attributes:
        flops: floating-point operations of training.
        tokens: tokens that the encoder sees in training.
        steps: optimiser steps; with 0 the encoder is exported as it begins.
        epochs: passes over the corpus.
        min_span, max_span: lengths of spans in tokens.
        documents, sentences: of a micro-batch over all processes, for objectives of either kind.
        min_tokens: that a document must have; None: what the spans need.

    Raises:
        UserError: if all four lengths are None.
    """

    flops: Annotated[float, Field(gt=0, le=1e30)] | None = None
    tokens: Amount | None = None
    steps: Annotated[int, Field(ge=0, le=COUNT)] | None = None
    epochs: Amount | None = None
    min_span: Size
    max_span: Size
    documents: Size
    sentences: Size
    min_tokens: Size | None = None

    def __post_init__(self) -> None:
        if all(value is None for value in (self.flops, self.tokens, self.steps, self.epochs)):
            raise UserError("one of steps, tokens, epochs and flops must be set", key="budget")

    def plan(self, *, step_flops: float, step_tokens: float, steps_per_epoch: float) -> Plan:
        """Returns the run that this budget pays for, from the cost of one optimiser step."""
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
    """Length of a run: optimiser steps, and the tokens, epochs and floating-point operations in them."""

    steps: int
    tokens: float
    epochs: float
    flops: float


def flops_per_second(device: torch.device, dtype: torch.dtype, seconds: float = 0.3) -> float:
    """Measures for about ``seconds`` how many floating-point operations a second a matrix product reaches here."""
    import torch

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
