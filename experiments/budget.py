"""Budgets: amounts of compute, and the number of steps that each pays for, whatever the machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from data.errors import UserError
from data.ranges import COUNT, Size

Amount = Annotated[float, Field(gt=0, le=COUNT)]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Sizes of a run. The first of ``steps``, ``tokens``, ``epochs`` and ``flops`` that is set gives its length.

    Attributes:
        flops: floating-point operations of training.
        tokens: tokens of the batches in training, those that only a decoder reads included.
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

    def plan(self, *, step_flops: Callable[[], float], step_tokens: float, steps_per_epoch: float) -> Plan:
        """Returns the run that this budget pays for, from the cost of one optimiser step.

        ``step_flops`` is called only if ``flops`` gives the length.
        """
        if self.steps is not None:
            steps = self.steps
        elif self.tokens is not None:
            steps = math.ceil(self.tokens / step_tokens)
        elif self.epochs is not None:
            steps = max(1, round(self.epochs * steps_per_epoch))
        elif self.flops is not None:
            steps = max(1, round(self.flops / step_flops()))
        return Plan(steps, steps * step_tokens, steps / steps_per_epoch)


@dataclass(frozen=True)
class Plan:
    """Length of a run: optimiser steps, and the tokens and epochs in them."""

    steps: int
    tokens: float
    epochs: float
