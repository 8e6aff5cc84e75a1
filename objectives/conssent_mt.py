"""ConsSent with multitask learning: two encoders side by side, one for sequences, one for pairs (Brahma 2018).

    E1: D(k), P(k), I(k), R(k), each with a classifier of its own        E(S) = [E1(S) ; E2(S)]
    E2: N(k), C(k)

Section 3 of the paper: each encoder cycles through its tasks, one batch of each. The paper does not say how the
two trainings relate in time. Here they are one run, whose micro-batches alternate between the encoders:

    D N P C I N R C | D N P C I N R C | ...

So each encoder gets every second micro-batch, and of 8 micro-batches N and C have two each, the other tasks one.
An epoch has as many micro-batches as one epoch of each of the six tasks together: if all tasks can use about the
same sentences, D, P, I and R pass over 3/4 of theirs in an epoch, N and C over theirs 3/2 times.
The paper's limit of 20 epochs is taken as 20 of these.

The encoders share neither weights nor losses, but one learning rate: a schedule that uses the dev metric takes the
mean of the six dev accuracies, so the rate drops, and training ends, for both encoders at once. With gradient
accumulation a step joins several micro-batches, and the gradient norm is clipped over both encoders. The best
checkpoint is chosen by the dev loss of D, unless ``checkpoint.metric`` names another part.
"""

from __future__ import annotations

from typing import Any

from data.batch import Batch
from data.ranges import AtLeast2, Proportion, Size, Width
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from objectives.base import Loss, Multitask, Requirements
from objectives.classifiers import Nonlinearity
from objectives.conssent import CITATION, PAIRS, ConsSent, ConsSentTask, NoiseName

TASKS: tuple[ConsSentTask, ...] = ("D", "P", "I", "R", "N", "C")
CYCLE: tuple[ConsSentTask, ...] = ("D", "N", "P", "C", "I", "N", "R", "C")


class ConsSentMT(Multitask):
    """All six tasks of ``ConsSent``, over two encoders.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        k: k of every task (the paper: 2 to 6).
        consistent, noise, nonlinearity, classifier_width: see ``ConsSent``.
    """

    citation = CITATION
    formula = ConsSent.formula
    version = 2  # version 1 cut sentences one token later (C)
    requirements = Requirements("sentence", encoders=2, word_order=True)

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
        super().__init__(
            {
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
        )
        self.batch_size = batch_size
        self.k = k

    def task_at(self, step: int, seed: int) -> str:
        return CYCLE[step % len(CYCLE)]

    def build(self, encoder: Encoder) -> None:
        for name, task in self.tasks.items():
            task.build(_choose_encoder(encoder, name))

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return super().loss(_choose_encoder(encoder, batch.task), batch)

    def chance_levels(self, size: int) -> dict[str, float]:
        return {part: value for task in self.tasks.values() for part, value in task.chance_levels(size).items()}

    def facts(self) -> dict[str, Any]:
        return {"task": f"MT({self.k})", "negatives per anchor": self.k - 1}


def _choose_encoder(encoder: Encoder, task: str) -> Encoder:
    """Returns the one of the two concatenated encoders that learns ``task``."""
    assert isinstance(encoder, Concatenated), "the experiment builds requirements.encoders of them"
    return encoder.members[int(task in PAIRS)]
