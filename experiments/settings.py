"""Types and ranges of the keys of ``run.yaml`` that belong to no component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from analysis.settings import no_encoder
from data.errors import UserError
from data.ranges import THREADS, Count, Positive, Seed, Size, Threads
from data.schema import require
from data.sentences import Sentences
from experiments.overrides import typed

# Processes that prepare batches for each one that trains on a GPU; on a CPU they would take its cores.
GPU_WORKERS = 4
MODEL_FILES = ("encoder", "encoder.json", "config.json", "modules.json")  # a model's folder has one of them
LOG_EVERY, GPU_LOG_EVERY = 10, 50  # steps; each write waits for the device


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """Settings of checkpoints: when they are written and which are kept.

    Attributes:
        every: steps between two; None: ten in a run.
        keep_last: how many of the newest are kept, besides the best one.
        metric, mode: the dev metric by which one is best, and whether its "min" or "max" is; None: the first of
            the objective's loss parts (dev_contrastive for declutr).
        export: the weights that are exported and evaluated, "last" (as published) or "best".
    """

    every: Count | None = None
    keep_last: Count = 2
    metric: str | None = None
    mode: Literal["min", "max"] = "min"
    export: Literal["last", "best"] = "last"

    def __post_init__(self) -> None:
        require(type(self), vars(self), "checkpoint")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run, whatever it trains; ``configs/run.yaml`` describes each key."""

    weights: Literal["auto", "pretrained", "random"] = "auto"
    seed: Seed = 1
    run_dir: str | None = None
    resume: str | None = None
    warm_start: str | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    deterministic: bool = False
    processes: Threads | None = None
    threads: Threads | None = None
    workers: Annotated[int, Field(ge=0, le=THREADS)] | None = None
    accumulation: Size = 1
    gradient_norm: Positive = 1.0
    log_every: Count | None = None
    dev_every: Count | None = None
    dev_batches: Size | None = None
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    sentences: Sentences = field(default_factory=Sentences)
    trackers: list[Literal["tensorboard", "wandb"]] = field(default_factory=list)
    verbose: bool = False
    cache: str = ".cache"

    def __post_init__(self) -> None:
        require(type(self), vars(self))

    def workers_for(self, device: str) -> int:
        """Returns how many processes prepare batches during training on a type of ``device`` of torch's."""
        if self.workers is not None:
            return self.workers
        from data.tokenising import cores  # late: its imports take seconds

        return min(GPU_WORKERS, cores()) if device == "cuda" else 0

    def log_every_for(self, device: str) -> int:
        """Returns the steps between two writes of the log in training on a type of ``device`` of torch's."""
        return self.log_every or (GPU_LOG_EVERY if device == "cuda" else LOG_EVERY)

    @classmethod
    def of(cls, config: dict[str, Any]) -> Settings:
        """Makes the settings from a whole configuration, whose other keys are left out."""
        values = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        nested = {"checkpoint": CheckpointSettings(**config["checkpoint"])}
        return cls(**values | nested | {"sentences": Sentences(**config.get("sentences") or {})})


def require_models(key: str, models: Sequence[str]) -> None:
    """Refuses ``models``, which ``key`` names, that cannot be opened, as far as names of files show it.

    Raises:
        UserError: with a line for each.
    """
    if found := [line for model in models if (line := _no_model(key, model))]:
        raise UserError(*found)


def _no_model(key: str, model: str) -> str:
    """Returns why ``model`` cannot be opened, in a line, as far as names of files show it; "" if it may be."""
    folder = Path(model).expanduser()
    if not model:
        return ""
    if folder.is_dir():
        if any((folder / name).exists() for name in MODEL_FILES):
            return ""
        if (folder / "config.yaml").is_file():
            return f"{key}={model}: the run is not finished; {typed('resume', model)} goes on with it."
        return f"{key}={model} is no model's folder: it has none of {', '.join(MODEL_FILES)}."
    return no_encoder(model)
