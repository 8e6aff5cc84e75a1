"""A figure and how it is made here: its runs, where they lie, how many go at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from data.tokenising import cores
from experiments import budget, side_by_side
from experiments.progress import Display
from experiments.reproduction.planning import Run, grid_of
from experiments.reproduction.settings import Reproduction
from experiments.reproduction.specification import Specification


@dataclass(frozen=True)
class Work:
    """A figure and how it is made here.

    Attributes:
        senteval: SentEval's folder, None where scores are of the quick judgement.
        at_once: runs at a time.
        passed: overrides of the runs.
    """

    specification: Specification
    wanted: Reproduction
    passed: Sequence[str]
    planned: Sequence[Run]
    senteval: Path | None
    at_once: int
    display: Display

    @property
    def runs(self) -> Path:
        return Path(self.wanted.runs)

    @property
    def folders(self) -> list[Path]:
        """Of the runs, each once: several rows may be of one run, judged by several poolings."""
        return list(dict.fromkeys(self.runs / run.name for run in self.planned if not run.members))

    @property
    def protocol(self) -> str | None:
        if self.senteval is None:
            return None
        return self.wanted.protocol or self.specification.scores.protocol

    @property
    def tasks(self) -> tuple[str, ...] | None:
        return tasks_of(self.specification, self.wanted)

    @property
    def what(self) -> str:
        """What its rows and points are of."""
        return "encoders" if any(run.members for run in self.planned) else "runs"

    def evaluation(self, run: Run) -> list[str] | None:
        """The command that judges a run on SentEval; None where all is judged, or SentEval is not asked."""
        if self.senteval is None or self.protocol is None:
            return None
        return side_by_side.evaluation(
            self.runs / run.name,
            data=self.senteval,
            protocol=self.protocol,
            passed=self.passed,
            threads=self.wanted.threads,
            tasks=self.tasks,
            probing=self.wanted.probing,
            pooling=run.pooling,
        )

    def state(self, run: Run) -> side_by_side.State | Literal["not judged"]:
        """How far it is."""
        state = side_by_side.state(self.runs / run.name)
        unjudged = state == "finished" and run.judged and self.evaluation(run) is not None
        return "not judged" if unjudged else state


def scored(specification: Specification) -> bool:
    """Whether it is of SentEval's scores, or of the quick judgement in their place."""
    if specification.table is not None:
        return specification.table.kind == "senteval"
    return specification.figure is not None and specification.figure.kind not in ("map", "density")


def apart(specification: Specification, wanted: Reproduction, senteval: Path | None) -> bool:
    """Whether what is joined is shown each by itself, as it has no quick judgement and SentEval is not there."""
    if senteval is not None or not scored(specification) or not specification.grids:
        return False
    axes = grid_of(specification, wanted).axes
    return any(specification.axes[axis][label].joins for axis, labels in axes.items() for label in labels)


def tasks_of(specification: Specification, wanted: Reproduction) -> tuple[str, ...] | None:
    """SentEval's tasks that are asked for; None: all."""
    if wanted.tasks is not None or wanted.budget == "paper":
        return wanted.tasks
    return specification.scores.tasks


def room(threads: int) -> int:
    """How many runs go at the same time: one on a GPU, else one for each ``threads`` cores."""
    if torch.cuda.is_available():
        return 1
    return max(1, cores() // threads)


@cache
def speed(threads: int) -> float:
    """Floating-point operations a second of one run here, for estimates that are shown; it never decides."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return budget.flops_per_second(device, torch.float32) * budget.EFFICIENCY
    finally:
        torch.set_num_threads(before)
