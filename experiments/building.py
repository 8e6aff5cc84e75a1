"""The components of a run, built from its configuration: corpus, encoder, objective, token store, loaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

import encoders
from data.errors import UnfitError, UserError, rename_keys
from data.loader import Batches, Loader, MultiTaskLoader
from data.sources.base import Part, Source
from data.store import TokenTable, prepare
from data.tokenizer import load_or_train, load_tokenizer
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from experiments import checkpoint, config
from experiments.budget import Budget
from experiments.optimizer import Optimizer
from experiments.progress import Display
from experiments.run_folder import ROOT
from experiments.schedules import Schedule
from experiments.settings import Settings
from objectives.base import PARTS, Corpus, Objective, TaskData


@dataclass(frozen=True)
class Components:
    """The components that depend on the configuration only; ``evaluation`` is None without one."""

    settings: Settings
    source: Source
    objective: Objective
    budget: Budget
    schedule: Schedule
    optimizer: Optimizer
    evaluation: Any


def build_components(values: Mapping[str, Any]) -> Components:
    """Builds the components that need neither text nor weights.

    Raises:
        UserError: if settings of a component contradict each other.
    """
    groups = ("corpus", "objective", "budget", "schedule", "optimizer", "evaluation")
    built: list[Any] = [config.build(values[group], group) if values.get(group) else None for group in groups]
    components = Components(Settings.from_config(values), *built)
    metric, names = values["checkpoint"]["metric"], [f"dev_{part}" for part in components.objective.part_names]
    if metric not in (None, *names):
        raise UserError(f"must be one of {', '.join(names)}", key=f"checkpoint.metric={metric}")
    return components


@dataclass
class Parts:
    """The parts of a run that are trained and read; ``task_data`` has the data of each task."""

    source: Source
    encoder: Encoder
    objective: Objective
    store: TokenTable
    task_data: Mapping[str, TaskData]

    def batches(self, part: Part, seed: int, rank: int = 0, world: int = 1) -> Batches:
        """Returns the micro-batches of process ``rank`` of ``world``."""
        loaders = self.loaders(part, seed, rank, world)
        if len(loaders) == 1:
            return next(iter(loaders.values()))
        return MultiTaskLoader(loaders, self.objective.task_at, seed)

    def loaders(self, part: Part, seed: int, rank: int, world: int) -> dict[str, Loader]:
        """Returns a loader for each task."""
        loaders = {}
        for stream, (name, task) in enumerate(self.objective.tasks.items()):
            data = self.task_data[name]
            indices = (data.train if part == "train" else data.dev).indices
            loaders[name] = Loader(
                data.units,
                indices,
                task,
                self.encoder.format,
                batch_size=task.batch_size,
                seed=seed,
                rank=rank,
                world=world,
                stream=stream,
                lengths=None if data.lengths is None else data.lengths[indices],
                contiguous=data.contiguous,
                units=f"pairs of {name}" if name in self.objective.own_sources else self.units,
                least=data.least,
            )
        return loaders

    @property
    def units(self) -> str:
        """Name of the units of the corpus."""
        return f"{self.objective.requirements.unit}s"

    def identity(self) -> dict[str, str]:
        """Returns names of the weights and fingerprints of the tokens that a resumed run must find again."""
        units: list[Any] = [self.store, *(self.task_data[name].units for name in self.objective.own_sources)]
        return {
            "weights": self.encoder.weights,
            "origin": self.encoder.origin,
            "store": " ".join(dict.fromkeys(tokens.fingerprint for tokens in units)),
        }


def build_parts(
    values: Mapping[str, Any],
    components: Components,
    accelerator: Accelerator,
    display: Display,
    tokenizer: Path | None,
) -> Parts:
    """Builds all parts; cheap refusals come before downloads and tokenising.

    Args:
        values: the run's configuration.
        components: its components.
        accelerator: its processes.
        display: shows progress.
        tokenizer: folder of the tokenizer of a resumed run.

    Raises:
        UserError: for errors that the user can fix.
    """
    settings, source, objective = components.settings, components.source, components.objective
    cache = ROOT / settings.cache
    display.say("Preparing corpus and encoder ...")
    torch.manual_seed(settings.seed)
    with accelerator.main_process_first():
        encoder = build_encoder(values, components, cache / "tokenizers", tokenizer)
    if synthetic := objective.facts().get("synthetic"):
        encoder.origin += f"; learns {synthetic} from synthetic pairs"
    if encoder.fallback:
        display.say(encoder.fallback)
    sentences = settings.sentences if objective.requirements.unit == "sentence" else None
    with display.bar("preparing") as show, accelerator.main_process_first():

        def progress(what: str, done: float) -> None:
            show(0.0, f"{what}: {done:,}")

        stores, tokenising = cache / "stores", partial(progress, "tokenising")
        store = prepare(source, encoder.tokenizer, cache=stores, sentences=sentences, progress=tokenising)
        task_data = objective.task_data(Corpus(source, store, encoder.tokenizer, cache, progress))
    parts = Parts(source, encoder, objective, store, task_data)
    for key, value in parts.identity().items():
        if values["names"].get(key, value) != value:
            raise UserError(f"was {values['names'][key]}, is {value}", key=f"resume: {key}")
    objective.build(encoder)
    if settings.warm_start is not None:
        folder = Path(settings.warm_start)
        for path in checkpoint.list_checkpoints(folder / "checkpoints")[-1:]:
            loaded = checkpoint.load_matching(path / checkpoint.OBJECTIVE, objective)
            display.fact("warm start", f"weights of the objective: {', '.join(loaded) or 'none'}")
    for part in PARTS:
        for name, loader in parts.loaders(part, 0, 0, accelerator.num_processes).items():
            with rename_keys(**{"": task_data[name].setting}):
                _ = loader.batches_per_epoch if part == "train" else loader.fixed_batches(0)
    return parts


def build_encoder(
    values: Mapping[str, Any], components: Components, cache: Path, tokenizer: Path | None
) -> Encoder:
    """Builds the encoder to train, or several side by side if the objective needs them.

    Raises:
        UnfitError: if the objective cannot train it.
    """
    source, objective, warm_start = components.source, components.objective, components.settings.warm_start
    required, node = objective.requirements, values["encoder"]
    if warm_start is not None:
        path = str(Path(warm_start, config.EXPORT))
        if required.encoders > 1:
            encoder = encoders.load(path)
            if len(getattr(encoder, "members", ())) != required.encoders:
                raise UnfitError(f"must hold {required.encoders} encoders side by side", key="warm_start")
            objective.check_encoder(encoder)
            return encoder
        node = node | {"path": path, "weights": "auto"}
    kind: type[Encoder] = config.locate(node["_target_"], "encoder")
    shape = config.parse(kind, node, "encoder")
    extra = {}
    if recipe := kind.tokenizer_recipe(**shape):
        reads_corpus = not objective.own_sources.keys() >= objective.tasks.keys()

        def texts() -> Iterable[str]:
            return chain(source.texts() if reads_corpus else (), objective.texts())

        key = (source.texts_key() if reads_corpus else "") + objective.texts_key()
        extra["tokenizer"] = load_tokenizer(tokenizer) if tokenizer else load_or_train(recipe, texts, cache, key)
    members: list[Encoder] = [config.build(node, "encoder", **extra) for _ in range(required.encoders)]
    encoder = members[0] if len(members) == 1 else Concatenated(members)
    objective.check_encoder(encoder)
    if required.mask_token:
        encoder.add_mlm_head()
    return encoder
