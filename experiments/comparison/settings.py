"""Keys of ``compare.yaml``: types, ranges and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import yaml

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import find
from data.ranges import Count, Seed, Threads
from data.schema import require, require_path
from experiments.command import settings_and_overrides
from experiments.overrides import choices, file_of, nearest

SHARED = "tokens=<number>, or equal=compute and budget=<name>, is for all runs"
# Keys that the command sets for each run, and the way to set them here.
RESERVED = {
    "objective": "objectives=[..] names them, settings.<objective>=[objective.k=3] sets their keys",
    "encoder": "encoders=[..] names them, settings.<encoder>=[encoder.hidden=512] sets their keys",
    "seed": "seeds=[..] is for all runs",
    "evaluation": "data=<folder> is for all runs",
    "run_dir": "runs=<folder> is for all runs",
    "resume": "the same command continues unfinished runs",
} | {f"budget.{key}": SHARED for key in ("tokens", "steps", "epochs", "flops")}
TOKENS = {"teaching": 400_000, "laptop": 8_000_000}  # of a run, by budget


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Settings of ``compare.py``; ``configs/commands/compare.yaml`` explains each key."""

    objectives: Sequence[str]
    encoders: Sequence[str]
    budget: str = "teaching"
    equal: Literal["tokens", "compute"] = "tokens"
    tokens: Count | None = None
    seeds: Sequence[Seed] = (1,)
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    queries: Sequence[str] | None = None
    data: str | None = None
    tasks: Sequence[str] | None = None
    protocol: str = "default"
    jobs: Threads = 1
    threads: Threads | None = None
    runs: str = "runs/compared"
    out: str = "outputs/comparison.html"
    dry_run: bool = False

    def __post_init__(self) -> None:
        require(type(self), vars(self))
        for name in ("objectives", "encoders", "seeds"):
            values = getattr(self, name)
            if not values or len({*values}) < len(values):
                raise ValueError(f"{name} must be one or more, each once. Got {[*values]} instead.")
        if self.budget not in (budgets := choices()["budget"]):
            raise ValueError(f"budget={self.budget}: no such budget. Available: {', '.join(budgets)}.")
        if self.equal == "compute" and self.tokens is not None:
            raise ValueError("tokens= requires equal=tokens: if compute is equal, tokens are not.")
        if self.equal == "tokens" and self.tokens is None and self.budget not in TOKENS:
            raise ValueError(f"budget={self.budget} sets no number of tokens: tokens=<number>, or equal=compute.")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol}: no such protocol. Available: {', '.join(PROTOCOLS)}.")
        if self.tasks is not None:
            find(list(self.tasks))
        require_path("data", self.data, "folder")
        if self.queries is not None and not all(query.strip() for query in self.queries):
            raise ValueError("queries must be sentences. Got an empty one.")

        self._check_names()

    def _check_names(self) -> None:
        """Refuses settings of what is not compared, but for those of the file, which are for other comparisons."""
        usual = yaml.safe_load(file_of("compare").read_text(encoding="utf-8"))["settings"]
        compared = [*self.objectives, *self.encoders]
        for name, overrides in self.settings.items():
            if name not in compared and overrides != usual.get(name):
                near = nearest(name, compared)
                hint = f"Did you mean settings.{near}?" if near else f"Available: {', '.join(compared)}."
                raise ValueError(f"settings.{name}: {name} is not compared here. {hint}")

    @property
    def tokens_each(self) -> int | None:
        """Tokens that every run is planned for; None if compute is equal instead."""
        return None if self.equal == "compute" else self.tokens or TOKENS[self.budget]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ComparisonSettings:
        """Makes the settings from a whole configuration."""
        return cls(**config)


# Returns the settings, and the overrides for the runs.
read = partial(settings_and_overrides, name="compare", schema=ComparisonSettings, reserved=RESERVED)
