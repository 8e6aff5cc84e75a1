"""The keys of ``reproduce.yaml``: types, ranges and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from analysis.figures import catalogue
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import find
from analysis.settings import TREEBANK
from data.errors import UserError
from data.ranges import Seed, Threads
from data.schema import require
from data.sources.inference import Inference
from experiments.command import settings_and_overrides

Size = Literal["teaching", "paper"]
RESERVED = {  # keys that the command sets for each run, and what to write instead
    "seed": "seeds=[..] gives all of them",
    "run_dir": "runs=<folder> is for all of them",
    "resume": "begun runs continue by themselves",
    "evaluation": "data=<SentEval folder> evaluates them",
}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Keys of ``reproduce.py``; ``configs/commands/reproduce.yaml`` explains each."""

    figure: str | None = None
    list: bool = False
    dry_run: bool = False
    budget: Size = "teaching"
    grid: Size | None = None
    only: Mapping[str, Sequence[str | float] | str | float] = field(default_factory=dict)
    seeds: tuple[Seed, ...] | None = None
    data: str | None = None
    probing: str | None = None
    tasks: tuple[str, ...] | None = None
    protocol: str | None = None
    vectors: str | None = None
    nli: Annotated[Mapping[str, Any], Inference] | None = None
    jobs: Threads | None = None
    threads: Threads = 1
    runs: str = "runs/reproduced"
    out: str = "outputs"

    def __post_init__(self) -> None:
        require(type(self), vars(self))
        if self.figure is None and not self.list:
            raise ValueError("figure is not set: figure=<paper>/<name>; list=true names all.")
        if self.seeds is not None and not self.seeds:
            raise ValueError("seeds must be one or more. Got [] instead.")
        if self.protocol is not None and self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol}: no such protocol. Available: {', '.join(PROTOCOLS)}.")
        if self.tasks is not None:
            find(self.tasks)
        data = None if self.data == TREEBANK else self.data
        for name, path in (("data", data), ("probing", self.probing), ("vectors", self.vectors)):
            if path is not None and not Path(path).exists():
                raise ValueError(f"{name}={path}: there is no such file or folder.")
        if self.nli is not None:
            try:
                Inference(**self.nli)  # refuses missing files before anything is trained
            except (UserError, ValueError) as error:
                raise ValueError(str(error).replace(f"{Inference.name}.", "nli.")) from None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Reproduction:
        """Makes the settings from a whole configuration, whose figure must exist."""
        values: Mapping[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in config.items()
        }
        made = cls(**values)
        if made.figure is not None:
            catalogue.find(made.figure)
        return made


# Returns the settings, and the overrides for the runs.
read = partial(settings_and_overrides, name="reproduce", schema=Reproduction, reserved=RESERVED)
