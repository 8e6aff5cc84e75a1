"""Optimisers: their settings, their parameter groups, and the learning rate of a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from data.errors import UserError
from data.ranges import Below1, Positive, Weight
from encoders.base import Encoder


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """Settings of an optimiser.

    Attributes:
        lr: peak learning rate; None, where a subclass takes it: its rate for the initial weights.
        weight_decay: of all parameters but biases and normalisation gains (those with fewer than two axes).
    """

    lr: Positive | None
    weight_decay: Weight = 0.0

    def rate(self, encoder: Encoder) -> tuple[float, str]:
        """Returns the peak learning rate for the initial weights of ``encoder``, and the key that sets it."""
        key = "lr"
        if self.lr is None:
            published = encoder.weights in ("pretrained", "own")
            key = "lr_untrained" if encoder.untrained else "lr_trained" if published else "lr_bundled"
        return getattr(self, key), f"optimizer.{key}"

    @abstractmethod
    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """Returns torch's optimiser over parameter ``groups``."""

    def build(self, model: nn.Module, without: Collection[nn.Parameter] = ()) -> torch.optim.Optimizer:
        """Returns torch's optimiser over the parameters of ``model`` that are trained, ``without`` some."""
        trained = [each for each in model.parameters() if each.requires_grad and each not in without]
        groups: list[dict[str, Any]] = [
            {"params": [each for each in trained if each.ndim >= 2], "weight_decay": self.weight_decay},
            {"params": [each for each in trained if each.ndim < 2], "weight_decay": 0.0},
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
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015), fused; weight decay is an L2 term of the gradient.

    Attributes:
        betas, eps: as in the paper.
    """

    implementation: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam
    lr: Positive
    betas: tuple[Below1, Below1] = (0.9, 0.999)
    eps: Positive = 1e-8

    def make(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return self.implementation(groups, betas=self.betas, eps=self.eps, fused=True)


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """AdamW (Loshchilov & Hutter 2019), fused.

    Weights decay before the update, as in torch; in the AdamW of transformers, which DeCLUTR's published program
    used, they decayed after it (a difference of order lr^2).

    Attributes:
        lr: None selects lr_trained, lr_bundled or lr_untrained by the initial weights.
        lr_trained, lr_bundled, lr_untrained: for published weights, for bundled ones and others that were trained
            here from random ones, and for random weights.
        correct_bias: False leaves out Adam's bias correction, as DeCLUTR's published program does:
            p <- p - lr * m / (sqrt(v) + eps), m and v uncorrected. Only for objectives of a single task.
    """

    implementation = torch.optim.AdamW
    lr: Positive | None = None  # type: ignore[assignment]
    lr_trained: Positive = 5e-5
    lr_bundled: Positive = 5e-4
    lr_untrained: Positive = 5e-4
    correct_bias: bool = True

    def prepare(self, optimizer: torch.optim.Optimizer, lr: float, updates: int | None = None) -> None:
        super().prepare(optimizer, lr)
        if self.correct_bias:
            return
        # torch's update is lr / c1 * m / (sqrt(v) / r2 + eps), c1 = 1 - beta1^t, r2 = sqrt(1 - beta2^t).
        # With lr * c1 / r2 for lr and eps / r2 for eps, both corrections cancel. With fp16 only the optimiser
        # knows t: it leaves out steps whose gradient overflowed.
        if updates is None:
            updates = next((int(state["step"]) for state in optimizer.state.values()), 0)
        c1, r2 = 1 - self.betas[0] ** (updates + 1), math.sqrt(1 - self.betas[1] ** (updates + 1))
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

    def build(self, model: nn.Module, without: Collection[nn.Parameter] = ()) -> torch.optim.Optimizer:
        tables = {module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
        matrices = [
            each for each in model.parameters() if each.requires_grad and each.ndim == 2 and each not in tables
        ]
        others = super().build(model, {*matrices})
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
