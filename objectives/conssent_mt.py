"""ConsSent in a multitask setting: two encoders beside each other, one for sequences, one for pairs (Brahma 2018).

    E1: D(k), P(k), I(k), R(k), each with a classifier of its own        E(S) = [E1(S) ; E2(S)]
    E2: N(k), C(k)

Section 3 of the paper: either encoder goes through its tasks in turn, a batch of each. How the two trainings
relate in time the paper does not say. Here they are one run of alternating micro-batches:

    D N P C I N R C | D N P C I N R C | ...

So 2 n micro-batches are n of either encoder, and of 8 N and C have two each, the others one. An epoch has as many
as the epochs of the six tasks by themselves have in all: where all have about the same sentences, D, P, I and R
go through 3/4 of theirs in it, N and C through theirs 3/2 times.

The encoders share no weight and no loss, but one learning rate: a schedule that uses the dev metric uses the mean
of the six dev accuracies, so it lowers the rate of both encoders, and both end together. Where micro-batches are
accumulated a step joins several turns, and the gradient of both encoders is clipped as one. Which checkpoint is
the best, D's dev loss decides, unless ``checkpoint.metric`` names another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from data.batch import Batch
from data.loader import Units
from data.ranges import AtLeast2, Proportion, Size, Width
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from objectives.base import Loss, Multitask, Needs
from objectives.classifiers import Nonlinearity
from objectives.conssent import CITATION, PAIRS, ConsSent, NoiseName, TaskName

TASKS: tuple[TaskName, ...] = ("D", "P", "I", "R", "N", "C")
TURNS: tuple[TaskName, ...] = ("D", "N", "P", "C", "I", "N", "R", "C")


class ConsSentMT(Multitask):
    """All six tasks of ``ConsSent``, over two encoders.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        k: of every task (the paper: 2 to 6).
        consistent, noise, nonlinearity, classifier_width: as ``ConsSent`` has them.

    Raises:
        ValueError: if an argument is out of range.
    """

    citation = CITATION
    version = 2  # 1 cut a sentence one token later for C

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        k: AtLeast2 = 3,
        consistent: Proportion = 0.5,
        noise: NoiseName = "unigram",
        nonlinearity: Nonlinearity = "none",
        classifier_width: Width = 512,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.k = k
        self._tasks: dict[str, ConsSent] = {
            task: ConsSent(
                batch_size=batch_size,
                task=task,
                k=k,
                consistent=consistent,
                noise=noise,
                nonlinearity=nonlinearity,
                classifier_width=classifier_width,
            )
            for task in TASKS
        }
        self.heads = nn.ModuleDict(self._tasks)  # registers their classifiers

    @property
    def tasks(self) -> Mapping[str, ConsSent]:
        return self._tasks

    def turn(self, step: int, seed: int) -> str:
        return TURNS[step % len(TURNS)]

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(name for task in self._tasks.values() for name in task.part_names)

    @property
    def needs(self) -> Needs:
        """Of a sentence that all tasks can use; each task has needs of its own."""
        least = max(task.needs.min_tokens for task in self._tasks.values())
        return Needs(unit="sentence", min_tokens=least, different_tokens=True, encoders=2, order=True)

    def study(self, units: Units, indices: np.ndarray) -> None:
        """Counts the tokens once for all tasks."""
        one, *others = self._tasks.values()
        one.study(units, indices)
        for task in others:
            task.counts, task.mean_length = one.counts, one.mean_length

    def require(self, encoder: Encoder) -> None:
        for name, task in self._tasks.items():
            task.require(member(encoder, name))

    def build(self, encoder: Encoder) -> None:
        for name, task in self._tasks.items():
            task.build(member(encoder, name))

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return self._tasks[batch.task].loss(member(encoder, batch.task), batch)

    def step_flops(self, encoder: Encoder) -> float:
        """The mean over the turns."""
        return sum(self._tasks[name].step_flops(member(encoder, name)) for name in TURNS) / len(TURNS)

    def facts(self) -> dict[str, Any]:
        return {"task": f"MT({self.k})", "negatives per anchor": self.k - 1}


def member(encoder: Encoder, task: str) -> Encoder:
    """The one of two concatenated encoders that learns ``task``."""
    assert isinstance(encoder, Concatenated), "the experiment builds what needs.encoders asks for"
    return encoder.members[int(task in PAIRS)]
