"""Keys of ``compare.yaml``: types, ranges and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import find
from data.errors import UserError
from data.ranges import Count, Seed, Threads
from data.schema import require
from experiments import arguments, signatures
from experiments.overrides import CONFIGS, key_of, options

FILE = CONFIGS / "compare.yaml"
# Keys that the command sets for each run, and the way to set them here.
RESERVED = {
    "objective": "objectives=[..] names them, settings.<objective>=[objective.k=3] sets their keys",
    "encoder": "encoders=[..] names them, settings.<encoder>=[encoder.hidden=512] sets their keys",
    "seed": "seeds=[..] is for all runs",
    "evaluation": "data=<folder> is for all runs",
    "run_dir": "runs=<folder> is for all runs",
    "resume": "the same command continues unfinished runs",
}
TOKENS = {"teaching": 400_000, "laptop": 8_000_000}  # of a run, by budget


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Settings of ``compare.py``; ``configs/compare.yaml`` explains each key."""

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
        if self.budget not in (budgets := options("budget")):
            raise ValueError(f"budget={self.budget}: no such budget. There are {', '.join(budgets)}.")
        if self.equal == "compute" and self.tokens is not None:
            raise ValueError("tokens= requires equal=tokens: if compute is equal, tokens are not.")
        if self.equal == "tokens" and self.tokens is None and self.budget not in TOKENS:
            raise ValueError(f"budget={self.budget} sets no number of tokens: tokens=<number>, or equal=compute.")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol}: no such protocol. There are {', '.join(PROTOCOLS)}.")
        if self.tasks is not None:
            find(list(self.tasks))
        if self.data is not None and not Path(self.data).is_dir():
            raise ValueError(f"data={self.data}: there is no such folder.")
        if self.queries is not None and not all(query.strip() for query in self.queries):
            raise ValueError("queries must be sentences. Got an empty one.")

    @property
    def tokens_each(self) -> int | None:
        """Tokens that every run is planned for; None if compute is equal instead."""
        return None if self.equal == "compute" else self.tokens or TOKENS[self.budget]


def read(given: Sequence[str]) -> tuple[ComparisonSettings, list[str]]:
    """Reads the command line: its own settings, and the overrides for all runs.

    Raises:
        UserError: with one line for each fault.
    """
    lists = ("objectives", "encoders", "seeds", "tasks", "queries")
    values, passed = arguments.read(given, ComparisonSettings, FILE, RESERVED, lists, texts=("queries",))
    keys = {key_of(text) for text in passed}
    if taken := [key for key in ("budget.tokens", "budget.steps", "budget.epochs", "budget.flops") if key in keys]:
        raise UserError(f"{taken[0]}: set for all runs by tokens=<number>, or equal=compute and budget=<name>.")
    try:
        wanted = ComparisonSettings(**values)
    except ValueError as error:
        raise UserError(str(error)) from None
    compared = [*wanted.objectives, *wanted.encoders]
    for key in (key_of(text) for text in given):  # the file's own settings may be for others
        group, _, name = key.partition(".")
        if group == "settings" and name and name not in compared:
            near = signatures.nearest(name, compared)
            hint = f"Did you mean settings.{near}?" if near else f"There are {', '.join(compared)}."
            raise UserError(f"{key}: {name} is not compared here. {hint}")
    return wanted, passed
