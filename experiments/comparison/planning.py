"""Plans the runs of a comparison: every pair and seed, named by its configuration."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.comparison.reading import BEFORE
from analysis.figures.declutr_tables import UNTRAINED
from data.errors import UserError
from experiments import compose
from experiments.comparison.settings import ComparisonSettings
from experiments.planned_runs import name_of


@dataclass(frozen=True)
class Planned:
    """A planned run.

    Attributes:
        objective, encoder, seed: identify it within the comparison.
        overrides: of experiments/run.py, without a folder.
        name: of its folder; equal for equal configurations only.
        config: composed from the overrides.
    """

    objective: str
    encoder: str
    seed: int
    overrides: tuple[str, ...]
    name: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def pair(self) -> tuple[str, str]:
        """The objective and the encoder."""
        return self.objective, self.encoder

    @property
    def command(self) -> str:
        """The command line that trains it."""
        return shlex.join(["python", "experiments/run.py", *self.overrides])


def plan(
    wanted: ComparisonSettings,
    passed: Sequence[str] = (),
    check: Callable[[list[str]], dict[str, Any]] = compose.check,
) -> list[Planned]:
    """Returns all runs, in the order of objectives, encoders and seeds.

    Args:
        wanted: the command's settings.
        passed: overrides for all runs.
        check: composes and checks a configuration.

    Raises:
        UserError: with one line for each fault of any run.
    """
    found, faults = [], dict[str, None]()
    equal = [] if wanted.tokens_each is None else [f"budget.tokens={wanted.tokens_each}"]
    for objective in wanted.objectives:
        for encoder in wanted.encoders:
            own = [*wanted.settings.get(objective, ()), *wanted.settings.get(encoder, ())]
            common = [f"objective={objective}", f"encoder={encoder}", f"budget={wanted.budget}", *equal]
            overrides = (*common, *own, *passed)
            try:
                config = check([*overrides])
            except UserError as error:
                faults |= dict.fromkeys(str(error).split("\n"))
                continue
            for seed in wanted.seeds:
                seeded = config | {"seed": seed}
                run = Planned(objective, encoder, seed, (*overrides, f"seed={seed}"), name_of(seeded), seeded)
                found.append(run)
    if faults:
        raise UserError("\n".join(faults))
    return found


def starts(planned: Sequence[Planned]) -> list[Planned]:
    """Returns a run for each encoder of ``planned`` that leaves it as it is before training.

    It is the encoder's first run, with a single step that moves nothing.
    """
    first = dict[str, Planned]()
    for run in planned:
        first.setdefault(run.encoder, run)
    found = []
    for run in first.values():
        overrides = (*run.overrides, *UNTRAINED)
        config = compose.check([*overrides])
        found.append(replace(run, objective=BEFORE, overrides=overrides, name=name_of(config), config=config))
    return found


def equality(wanted: ComparisonSettings) -> str:
    """Returns a sentence on the amount that is equal for all runs."""
    if wanted.tokens_each is None:
        return (
            f"All runs are planned for equal compute, the floating-point operations of budget={wanted.budget}; "
            "tokens and time differ."
        )
    return (
        f"All runs are planned for equally many tokens, {wanted.tokens_each:,} each, in batches of "
        f"budget={wanted.budget}; time and compute differ. The number of steps is estimated from a few batches "
        "before training; the table of costs shows the tokens that each run read, decoder targets included."
    )


def folder_of(wanted: ComparisonSettings, run: Planned) -> Path:
    """Returns the run folder of a planned run."""
    return Path(wanted.runs) / run.name
