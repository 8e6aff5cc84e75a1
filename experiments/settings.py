"""Types and ranges of the keys of ``run.yaml`` that belong to no component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from data.ranges import THREADS, Count, ExpandedPath, Positive, Seed, Size, Threads
from data.sentences import Sentences
from experiments.config import parse


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """Settings of checkpoints; ``configs/run.yaml`` describes each key."""

    every: Count | None
    keep_last: Count
    metric: str | None
    mode: Literal["min", "max"]
    export: Literal["last", "best"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run, whatever it trains; ``configs/run.yaml`` describes each key."""

    weights: Literal["auto", "pretrained", "random"]
    seed: Seed
    run_dir: str | None
    resume: str | None
    warm_start: ExpandedPath | None
    device: Literal["auto", "cpu", "cuda", "mps"]
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    deterministic: bool
    processes: Threads | None
    threads: Threads | None
    workers: Annotated[int, Field(ge=0, le=THREADS)] | None
    accumulation: Size
    gradient_norm: Positive
    log_every: Count
    dev_every: Count | None
    dev_batches: Size | None
    checkpoint: CheckpointSettings
    sentences: Sentences
    cache: ExpandedPath

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Makes the settings from a whole configuration, whose components are left out."""
        return cls(**parse(cls, {name: config[name] for name in cls.__dataclass_fields__}))
