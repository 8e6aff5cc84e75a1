"""What every objective promises: what it draws from text, what it needs, and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.token_format import TokenFormat
from encoders.base import Encoder


class Loss(NamedTuple):
    """A step's loss.

    Attributes:
        total: scalar with gradient. Over several processes the *mean* of the gradients of all processes
            is the gradient of the global batch's loss.
        parts: named detached scalars for the log, already those of the global batch.
    """

    total: Tensor
    parts: Mapping[str, Tensor]


@dataclass(frozen=True)
class Needs:
    """What an objective asks of corpus and encoder; checked before anything is built.

    Attributes:
        unit: what one example is drawn from.
        min_tokens: content tokens that a unit must have to be usable.
        mask_token: whether the tokenizer must have a mask token, and the encoder an MLM output layer.
    """

    unit: Literal["document", "sentence"] = "document"
    min_tokens: int = 1
    mask_token: bool = False


class Objective(nn.Module, ABC):
    """Base of all objectives.

    The constructor takes hyperparameters alone (keyword-only, typed: it is the schema of the YAML) and
    checks them; ``build`` makes the parts that depend on the encoder. Parts are dropped at export.

    Attributes:
        batch_size: examples of one micro-batch over all processes.
        citation: BibTeX of the paper, for the cards of what is trained with it.
    """

    batch_size: int
    citation: str = ""

    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the loss parts that ``loss`` gives, hence of the ``dev_<part>`` that ``dev_metrics`` gives."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What this objective asks of corpus and encoder."""

    def build(self, encoder: Encoder) -> None:
        """Makes the heads and queues that depend on the encoder's widths."""

    @abstractmethod
    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Any:
        """One example of one unit (content token ids of shape (n,)): a pure function of its arguments."""

    @abstractmethod
    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Joins drawn examples into a batch, rows in the order of ``examples``."""

    @abstractmethod
    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        """Loss of a micro-batch; called under the trainer's autocast."""

    @abstractmethod
    def step_flops(self, encoder: Encoder) -> float:
        """Expected floating-point operations of forward and backward over one micro-batch (all processes)."""

    def after_step(self) -> None:
        """Called after each optimiser step."""

    def facts(self) -> dict[str, Any]:
        """What a table should say beside the scores (negatives per anchor, say)."""
        return {}

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Mean of the loss parts over held-out ``batches``, as ``dev_<part>``, without gradient or dropout."""
        training = encoder.training, self.training
        encoder.eval()
        self.eval()
        sums: dict[str, float] = {}
        size = 0
        try:
            with torch.no_grad():
                for batch in batches:
                    for name, value in self.loss(encoder, batch).parts.items():
                        sums[name] = sums.get(name, 0.0) + float(value) * batch.size
                    size += batch.size
        finally:
            encoder.train(training[0])
            self.train(training[1])
        return {f"dev_{name}": value / size for name, value in sums.items()}
