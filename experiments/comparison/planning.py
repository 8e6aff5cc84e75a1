"""The runs of a comparison: every pair and seed, by the name that its configuration gives it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.errors import UserError
from experiments import compose
from experiments.comparison.settings import ComparisonSettings
from experiments.side_by_side import name_of

Check = Callable[[list[str]], dict[str, Any]]


@dataclass(frozen=True)
class Planned:
    """A run that is wanted.

    Attributes:
        objective, encoder, seed: what it is.
        overrides: of experiments/run.py, without a folder.
        name: of its folder: equal for equal configurations alone.
        config: composed of them.
    """

    objective: str
    encoder: str
    seed: int
    overrides: tuple[str, ...]
    name: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def command(self) -> str:
        """That trains it, as one would type it."""
        return shlex.join(["python", "experiments/run.py", *self.overrides])


def plan(wanted: ComparisonSettings, passed: Sequence[str] = (), check: Check = compose.check) -> list[Planned]:
    """All runs, in the order of objectives, encoders and seeds.

    Raises:
        UserError: with one line for each fault of any run.
    """
    found, faults = [], dict[str, None]()
    equal = [] if wanted.tokens_each is None else [f"budget.tokens={wanted.tokens_each}"]
    for objective in wanted.objectives:
        for encoder in wanted.encoders:
            own = [*wanted.settings.get(objective, ()), *wanted.settings.get(encoder, ())]
            common = [f"objective={objective}", f"encoder={encoder}", f"budget={wanted.budget}", *equal]
            overrides = [*common, *own, *passed]
            try:
                config = check(overrides)
            except UserError as error:
                faults |= dict.fromkeys(str(error).split("\n"))
                continue
            for seed in wanted.seeds:
                own_config = config | {"seed": seed}
                planned = (*overrides, f"seed={seed}"), name_of(own_config), own_config
                found.append(Planned(objective, encoder, seed, *planned))
    if faults:
        raise UserError("\n".join(faults))
    return found


def equality(wanted: ComparisonSettings) -> str:
    """What all runs have the same amount of, in a sentence."""
    if wanted.tokens_each is None:
        return (
            f"All runs are planned for equal compute, the floating-point operations of budget={wanted.budget}; "
            "the tokens that they read and the time that they take differ."
        )
    return (
        f"All runs are planned for equally many tokens, {wanted.tokens_each:,} each, in batches of "
        f"budget={wanted.budget}: the number of steps follows from a few batches drawn before training, and the "
        "table of costs has what each run then read. All tokens of a batch count, among them those that a decoder "
        "is to write. Time and compute differ."
    )


def folder_of(wanted: ComparisonSettings, run: Planned) -> Path:
    return Path(wanted.runs) / run.name
