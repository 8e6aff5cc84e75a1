"""Types and ranges of the keys of ``run.yaml`` that belong to no component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from data.ranges import THREADS, Count, Positive, Seed, Size, Threads
from data.sentences import Sentences
from experiments.config import parse

GPU_WORKERS = 4  # processes that prepare batches for each GPU; on a CPU they would take the cores of training
LOG_EVERY, GPU_LOG_EVERY = 10, 50  # steps; each write waits for the device


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """Settings of checkpoints; ``configs/run.yaml`` describes each key."""

    every: Count | None = None
    keep_last: Count = 2
    metric: str | None = None
    mode: Literal["min", "max"] = "min"
    export: Literal["last", "best"] = "last"


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
    trackers: Sequence[Literal["tensorboard", "wandb"]] = ()
    verbose: bool = False
    cache: str = ".cache"

    def workers_for(self, device: str) -> int:
        """Returns how many processes prepare batches during training on a type of torch's ``device``."""
        if self.workers is not None:
            return self.workers
        from data.environment import cores

        return min(GPU_WORKERS, cores()) if device == "cuda" else 0

    def log_every_for(self, device: str) -> int:
        """Returns the steps between two writes of the log in training on a type of torch's ``device``."""
        return self.log_every or (GPU_LOG_EVERY if device == "cuda" else LOG_EVERY)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Makes the settings from a whole configuration, whose components are left out."""
        return cls(**parse(cls, {name: config[name] for name in cls.__dataclass_fields__ if name in config}))
