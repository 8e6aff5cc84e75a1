"""Types and ranges of the keys of ``run.yaml`` that belong to no component, and of those of ``evaluate.yaml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import find
from data.display import WITHOUT_POOLING, nearest_model
from data.errors import UserError
from data.ranges import THREADS, WIDEST, Below1, Count, Positive, Seed, Size, SizeOrZero, Threads
from data.schema import require
from data.sentences import Sentences
from experiments.overrides import typed

FOLDS = 1000  # of cross-validation: each trains a classifier
# Processes that prepare batches for each one that trains on a GPU; on a CPU they would take its cores.
GPU_WORKERS = 4
MODEL_FILES = ("encoder", "encoder.json", "config.json", "modules.json")  # a model's folder has one of them
LOG_EVERY, GPU_LOG_EVERY = 10, 50  # steps; each write waits for the device
BUNDLED = Path(__file__).resolve().parents[1] / "encoders" / "checkpoints"  # starts.CHECKPOINTS, without torch


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


def _meant(model: str) -> str | None:
    """Returns the name or run folder that is close to ``model``, if that is neither one nor a folder.

    A name on the hub looks like a folder, so only the runs beside a folder are taken for close to it.
    """
    place = Path(model)
    names = {*WITHOUT_POOLING, *(folder.name for folder in BUNDLED.iterdir())}
    if not model or model in names or model.startswith("~") or place.is_dir():
        return None
    if len(place.parts) > 1:
        runs = {run.parent.name for run in place.parent.glob("*/config.yaml")}
        near = get_close_matches(place.name, runs, 1, 0.8)
        return str(place.parent / near[0]) if near else None
    return nearest_model(model, names)


def require_path(key: str, path: str | None, kind: str) -> None:
    """Refuses a ``path`` where there is no "file" or no "folder", as ``kind`` says.

    Raises:
        ValueError: naming ``key``.
    """
    there = Path(path).expanduser() if path is not None else None
    if there is not None and not (there.is_dir() if kind == "folder" else there.is_file()):
        raise ValueError(f"{key}={path}: there is no such {kind}.")


@dataclass(frozen=True, kw_only=True)
class WordVectorSettings:
    """Settings of ``model=bag_of_words``; ``encoders.bag_of_words.BagOfWords`` describes them."""

    vectors: str | None = None
    lowercase: bool = False
    weighting: Literal["none", "tfidf", "sif"] = "none"
    counts: str | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of an evaluation; ``configs/evaluate.yaml`` describes each key."""

    model: str = ""
    ensemble: list[str] | None = None
    pooling: Literal["mean", "cls", "max", "last", "pooler"] | None = None
    layers: SizeOrZero | None = None
    encoder: WordVectorSettings = field(default_factory=WordVectorSettings)
    data: str | None = None
    probing: str | None = None
    tasks: list[str] | None = None
    protocol: str = "default"
    hidden: Annotated[int, Field(ge=0, le=WIDEST)] | None = None
    dropout: Below1 | None = None
    folds: Annotated[int, Field(ge=2, le=FOLDS)] | None = None
    out: str | None = None
    embed: str | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    threads: Threads | None = None
    processes: Threads | None = None
    cache: str = ".cache"

    def __post_init__(self) -> None:
        require(type(self), vars(self))
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol}: no such protocol. There are {', '.join(PROTOCOLS)}.")
        if self.dropout and not (self.hidden or PROTOCOLS[self.protocol].classifier.hidden):
            raise ValueError("dropout needs a hidden layer: hidden=<units>.")
        if PROTOCOLS[self.protocol].poolings and (self.model in WITHOUT_POOLING or self.pooling is not None):
            raise ValueError(
                f"protocol={self.protocol} chooses among poolings: pooling=, and models of one pooling, do not go "
                "with it."
            )
        self._check_what()
        if self.embed is not None and not str(self.out).endswith(".npy"):
            raise ValueError("embed needs out=<file>.npy, where the vectors go.")
        self._check_paths()
        find(self.tasks)
        if self.model == "bag_of_words" and self.encoder.vectors is None:
            raise ValueError("model=bag_of_words needs encoder.vectors=<file of word vectors>.")
        if self.encoder.weighting != "none" and self.encoder.counts is None:
            raise ValueError(
                f"encoder.weighting={self.encoder.weighting} needs encoder.counts=<text to count words in>, a "
                "sentence a line."
            )
        if self.pooling is not None and self.model in WITHOUT_POOLING:
            raise ValueError(f"pooling={self.pooling}: {self.model} has no other pooling than its own.")
        if self.layers is not None and self.model in WITHOUT_POOLING:
            raise ValueError(f"layers={self.layers}: {self.model} has no layers.")
        if self.precision != "fp32" and self.model in WITHOUT_POOLING:
            raise ValueError(f"precision={self.precision}: {self.model} is computed in fp32 only.")
        if self.precision == "tf32" and self.device == "cpu":
            raise ValueError("precision=tf32 needs a CUDA GPU: use fp32 or bf16.")

    def _check_what(self) -> None:
        """Requires one model, or an ensemble of results, to which settings of a model do not apply."""
        if self.ensemble is None:
            if not self.model:
                raise ValueError("model is not set.")
            return
        if self.model:
            raise ValueError("model= and ensemble= exclude each other: an ensemble is made of finished results.")
        if len({Path(one).resolve() for one in self.ensemble}) < max(2, len(self.ensemble)):
            raise ValueError(
                "ensemble must name two or more folders of results, each once, as in ensemble=[a,b]. "
                f"Got {self.ensemble} instead."
            )
        if self.out is None:
            raise ValueError("ensemble needs out=<folder>, where its results go.")
        alone = ("pooling", "layers", "data", "probing", "hidden", "dropout", "folds", "embed")
        if given := [key for key in alone if getattr(self, key) is not None]:
            raise ValueError(
                f"{', '.join(given)}: an ensemble is evaluated as its members were; only tasks= goes with it."
            )

    def _check_paths(self) -> None:
        """Refuses paths that do not exist, before anything is imported that takes seconds."""
        if Path(self.model).is_file():
            raise ValueError(
                f"model={self.model} is a file: word vectors go by model=bag_of_words encoder.vectors=<file>."
            )
        if near := _meant(self.model):
            raise ValueError(f"model={self.model}: there is no such folder. Did you mean {near}?")
        require_path("data", self.data, "folder")
        require_path("probing", self.probing, "folder")
        require_path("encoder.vectors", self.encoder.vectors, "file")
        require_path("encoder.counts", self.encoder.counts, "file")
        require_path("embed", self.embed, "file")

    def require_model(self) -> None:
        """Refuses a model that cannot be opened, as far as names of files show it.

        Raises:
            UserError: if it is a folder without a model.
        """
        model, folder = self.model, Path(self.model).expanduser()
        if not model or any((folder / name).exists() for name in MODEL_FILES):
            return
        if (folder / "config.yaml").is_file():
            raise UserError(f"model={model}: the run is not finished; {typed('resume', model)} goes on with it.")
        if folder.is_dir():
            raise UserError(f"model={model} is no model's folder: it has none of {', '.join(MODEL_FILES)}.")
        # What is no path may be a model of the hub, as "organisation/name".
        if not folder.exists() and (model[0] in "/.~" or model.count("/") > 1):
            raise UserError(f"There is no encoder's folder {model}.")

    @classmethod
    def of(cls, config: dict[str, Any]) -> EvaluationSettings:
        """Makes the settings from a whole configuration."""
        return cls(**config | {"encoder": WordVectorSettings(**config["encoder"])})
