"""Optimisers: their settings, their parameter groups, and the learning rate of a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from data.errors import UserError
from data.ranges import Below1, Positive, Weight
from encoders.base import Encoder

Start = Literal["trained", "bundled", "untrained"]  # published weights, small ones trained here, random ones


def tables_of(modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Returns the embedding tables of ``modules``: matrices that are looked up row by row, not multiplied."""
    return [inner.weight for module in modules for inner in module.modules() if isinstance(inner, nn.Embedding)]


def start_of(encoder: Encoder) -> Start:
    """Returns how the weights of ``encoder`` begin."""
    if encoder.untrained:
        return "untrained"
    return "trained" if encoder.weights in ("pretrained", "own") else "bundled"


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """Settings of an optimiser.

    Attributes:
        lr: peak learning rate; None, where a subclass takes it: one of its own defaults.
        weight_decay: of all parameters but biases and normalisation gains (those with fewer than two axes).
    """

    lr: Positive | None
    weight_decay: Weight = 0.0

    def rate(self, start: Start) -> tuple[float, str]:
        """The peak learning rate of weights of the kind ``start``, and the key that sets it."""
        assert self.lr is not None
        return self.lr, "optimizer.lr"

    @abstractmethod
    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """torch's optimiser over parameter ``groups``."""

    def build(
        self, parameters: Iterable[nn.Parameter], tables: Iterable[torch.Tensor] = ()
    ) -> torch.optim.Optimizer:
        """torch's optimiser over ``parameters``, of which ``tables`` are embeddings (see ``tables_of``)."""
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        matrices = [parameter for parameter in trained if parameter.ndim >= 2]
        others = [parameter for parameter in trained if parameter.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return self.make([group for group in groups if group["params"]])

    def prepare(self, optimizer: torch.optim.Optimizer, lr: float, updates: int | None = None) -> None:
        """Sets learning rate ``lr`` for the next update.

        Args:
            optimizer: what ``build`` returned.
            lr: of the update.
            updates: how many there were; None: read from the optimiser, for which the host waits for the device.
        """
        for group in optimizer.param_groups:
            group["lr"] = lr


@dataclass(frozen=True, kw_only=True)
class Moments(Optimizer):
    """Settings of Adam and AdamW.

    Attributes:
        betas, eps: as in Adam's paper.
    """

    betas: tuple[Below1, Below1] = (0.9, 0.999)
    eps: Positive = 1e-8


@dataclass(frozen=True, kw_only=True)
class Adam(Moments):
    """Adam (Kingma & Ba 2015), fused; weight decay is an L2 term of the gradient."""

    lr: Positive

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, betas=self.betas, eps=self.eps, fused=True)


@dataclass(frozen=True, kw_only=True)
class AdamW(Moments):
    """AdamW (Loshchilov & Hutter 2019), fused.

    Weights decay before the update, as in torch; in the AdamW of transformers, which DeCLUTR's published program
    used, they decayed after it (a difference of order lr^2).

    Attributes:
        lr: None: that of the next three which fits the weights that training begins with.
        lr_trained, lr_bundled, lr_untrained: of published weights, of bundled ones and others that once began at
            random here, and of random weights.
        correct_bias: False leaves out Adam's bias correction, as DeCLUTR's published program does:
            p <- p - lr * m / (sqrt(v) + eps), m and v uncorrected.
    """

    lr: Positive | None = None
    lr_trained: Positive = 5e-5
    lr_bundled: Positive = 5e-4
    lr_untrained: Positive = 5e-4
    correct_bias: bool = True

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(groups, betas=self.betas, eps=self.eps, fused=True)

    def rate(self, start: Start) -> tuple[float, str]:
        if self.lr is not None:
            return super().rate(start)
        key = f"lr_{start}"
        return getattr(self, key), f"optimizer.{key}"

    def prepare(self, optimizer: torch.optim.Optimizer, lr: float, updates: int | None = None) -> None:
        super().prepare(optimizer, lr)
        if self.correct_bias:
            return
        # torch's update is lr / c1 * m / (sqrt(v) / r2 + eps), c1 = 1 - beta1^t, r2 = sqrt(1 - beta2^t).
        # With lr * c1 / r2 for lr and eps / r2 for eps, both corrections cancel. With fp16 only the optimiser
        # knows t: it leaves out steps whose gradient overflowed.
        if updates is None:
            updates = next((int(state["step"]) for state in optimizer.state.values()), 0)
        step = 1 + updates
        c1, r2 = 1 - self.betas[0] ** step, math.sqrt(1 - self.betas[1] ** step)
        for group in optimizer.param_groups:
            group["lr"] = lr * c1 / r2
            group["eps"] = self.eps / r2
            if group["weight_decay"]:
                group["weight_decay"] = self.weight_decay * r2 / c1  # decay stays lr * weight_decay


@dataclass(frozen=True, kw_only=True)
class Muon(AdamW):
    """Muon for the matrices, AdamW for embeddings, biases and normalisation gains.

    A matrix W of shape (m, n) moves along its momentum B with all singular values made about 1 (five Newton-Schulz
    steps, in bfloat16: slow on a CPU without it), as far as AdamW would: W <- W - lr * 0.2 sqrt(max(m, n)) * UV^T.
    So one learning rate serves both.

    Attributes:
        momentum: of the matrices' gradients (Nesterov's).

    References: Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks"; Liu et al. (2025),
    "Muon is Scalable for LLM Training", equation 4: the factor 0.2 sqrt(max(m, n)).
    """

    momentum: Below1 = 0.95

    def __post_init__(self) -> None:
        if not self.correct_bias:
            raise UserError("false is for AdamW only", key="optimizer.correct_bias")

    def build(
        self, parameters: Iterable[nn.Parameter], tables: Iterable[torch.Tensor] = ()
    ) -> torch.optim.Optimizer:
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        looked_up = {id(table) for table in tables}
        matrices = [each for each in trained if each.ndim == 2 and id(each) not in looked_up]
        multiplied = {id(matrix) for matrix in matrices}
        others = super().build(each for each in trained if id(each) not in multiplied)
        if not matrices:
            return others
        muon = torch.optim.Muon(
            matrices, weight_decay=self.weight_decay, momentum=self.momentum, adjust_lr_fn="match_rms_adamw"
        )
        return _Joint(muon, others)


class _Joint(torch.optim.Optimizer):
    """Several optimisers as one: their parameter groups one after the other, their states in one place."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self._parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        groups = iter(self.param_groups)  # loading a state puts other dictionaries in their places
        for part in self._parts:
            part.state, part.param_groups = self.state, [next(groups) for _ in part.param_groups]
            part.step()


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent.

    Attributes:
        momentum: 0 for none.
    """

    lr: Positive
    momentum: Below1 = 0.0

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, momentum=self.momentum, fused=True)
