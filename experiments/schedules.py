"""Learning-rate schedules: pure functions of the step, and the settings that choose one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from data.ranges import Below1, Factor, Proportion, Share, SizeOrZero, Weight


class Schedule(ABC):
    """Settings of a schedule.

    Attributes:
        uses_dev_metric: whether the factor depends on dev accuracy, which is then computed after each epoch.
        stop: learning rate below which training ends.
    """

    uses_dev_metric: ClassVar[bool] = False
    stop = 0.0

    @abstractmethod
    def factor(self, step: int, steps: int, *, epoch: int = 0, drops: int = 0) -> float:
        """Returns the share of the peak learning rate.

        Args:
            step: number of the step, from 0.
            steps: length of the run.
            epoch: whole passes over the corpus so far.
            drops: epochs so far after which dev accuracy did not exceed the best one before.
        """


@dataclass(frozen=True, kw_only=True)
class SlantedTriangular(Schedule):
    """Howard & Ruder (2018), equation 3: a short steep rise, a long slow fall.

    p rises from 0 to 1 over the first ``cut`` of the steps and falls to 0 over the others; the share is
    (1 + p (ratio - 1)) / ratio. (The paper's falling leg has the length cut * (1 / cut_frac - 1), which
    rounding makes shorter than what is left of a short run: p would end below 0. Here it is what is left.)

    Attributes:
        cut: share of the steps in which the rate rises.
        ratio: of the highest to the lowest rate.
    """

    cut: Proportion = 0.1
    ratio: Annotated[float, Field(ge=1)] = 32.0

    def factor(self, step: int, steps: int, **_: int) -> float:
        top = max(1, int(steps * self.cut))
        p = step / top if step < top else 1 - (step - top) / max(1, steps - top)
        return (1 + p * (self.ratio - 1)) / self.ratio


@dataclass(frozen=True, kw_only=True)
class Linear(Schedule):
    """Linear warm-up over the first ``warm_up`` of the steps, then linear decay to 0."""

    warm_up: Below1 = 0.1

    def factor(self, step: int, steps: int, **_: int) -> float:
        top = int(steps * self.warm_up)
        return (step + 1) / (top + 1) if step < top else (steps - step) / (steps - top)


@dataclass(frozen=True, kw_only=True)
class WarmupStableDecay(Schedule):
    """Linear warm-up, a plateau at the peak, linear decay to 0 (Hu et al. 2024, "MiniCPM", section 4).

    The plateau does not depend on the length of the run, which can therefore be changed until the decay begins:
    ``resume=<run> budget.steps=<number>``.

    Attributes:
        warm_up: steps in which the rate rises.
        decay: share of the steps, at the end, in which it falls.
    """

    warm_up: SizeOrZero = 500
    decay: Share = 0.2

    def factor(self, step: int, steps: int, **_: int) -> float:
        falling = max(1.0, steps * self.decay)
        return min(1.0, (step + 1) / (self.warm_up + 1), (steps - step) / falling)


class Constant(Schedule):
    """The same learning rate throughout."""

    def factor(self, step: int, steps: int, **_: int) -> float:
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Annealed(Schedule):
    """ConsSent's, after InferSent (Conneau et al. 2017, section 3.3): ``decay`` ^ epoch * ``drop`` ^ drops.

    Attributes:
        decay: factor of each epoch.
        drop: further factor of each epoch after which dev accuracy did not exceed the best one so far.
        stop: learning rate below which training ends (InferSent's).
    """

    uses_dev_metric: ClassVar[bool] = True
    decay: Factor = 0.99
    drop: Factor = 0.2
    stop: Weight = 1e-5

    def factor(self, step: int, steps: int, *, epoch: int = 0, drops: int = 0) -> float:
        return self.decay**epoch * self.drop**drops
