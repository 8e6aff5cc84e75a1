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
from data.errors import UnfitError, UserError
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
from objectives.base import NO_WORD_ORDER, PARTS, Corpus, Objective, TaskData

# Keys that decide which text can be used, by what an objective reads.
LENGTH_HINTS = {
    "document": "See corpus.document (of .txt files), budget.min_tokens and budget.max_span.",
    "sentence": "See corpus.document (of .txt files), sentences.min_words, .max_words and budget.max_span.",
}


@dataclass(frozen=True)
class Components:
    """The components that depend on the configuration only; ``evaluation`` is None without one."""

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
    parts = Components(*built)
    metric, names = values["checkpoint"]["metric"], [f"dev_{part}" for part in parts.objective.part_names]
    if metric not in (None, *names):
        raise UserError(f"must be one of {', '.join(names)}", key=f"checkpoint.metric={metric}")
    return parts


@dataclass
class Parts:
    """The parts of a run that are trained and read.

    Attributes:
        task_data: the data of each of the objective's tasks, by the task's name.
    """

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
        return MultiTaskLoader(loaders, partial(self.objective.task_at, seed=seed))

    def loaders(self, part: Part, seed: int, rank: int, world: int) -> dict[str, Loader]:
        """Returns a loader for each task."""
        loaders = {}
        for stream, (name, task) in enumerate(self.objective.tasks.items()):
            data = self.task_data[name]
            indices = (data.train if part == "train" else data.dev).indices
            units = f"{self.objective.requirements.unit}s"
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
                units=f"pairs of {name}" if name in self.objective.own_data() else units,
                least=data.least,
            )
        return loaders

    def require_batches(self, processes: int) -> None:
        """Refuses data that do not fill a batch of ``processes``, or are too few for a measurement.

        Raises:
            UserError: naming the key of the data.
        """
        for part in PARTS:
            for name, loader in self.loaders(part, 0, 0, processes).items():
                try:
                    _ = loader.batches_per_epoch if part == "train" else loader.fixed(0)
                except UserError as error:
                    raise UserError(error.text, key=self.task_data[name].setting) from None

    def identity(self) -> dict[str, str]:
        """Returns names of the weights and fingerprints of the tokens that a resumed run must find again."""
        units: list[Any] = [self.store, *(self.task_data[name].units for name in self.objective.own_data())]
        return {
            "weights": self.encoder.weights,
            "origin": self.encoder.origin,
            "store": " ".join(dict.fromkeys(tokens.fingerprint for tokens in units)),
        }

    def require_identity(self, names: Mapping[str, Any]) -> None:
        """Refuses to resume a run with other text, tokens or weights than its ``names`` say.

        Raises:
            UserError: naming what differs.
        """
        for key, value in self.identity().items():
            if names.get(key, value) != value:
                raise UserError(f"was {names[key]}, is {value}", key=f"resume: {key}")


def build_parts(
    values: Mapping[str, Any],
    components: Components,
    settings: Settings,
    accelerator: Accelerator,
    display: Display,
    tokenizer: Path | None,
) -> Parts:
    """Builds all parts; cheap refusals come before downloads and tokenising.

    Args:
        values: the run's configuration.
        components: its components.
        settings: its settings.
        accelerator: its processes.
        display: shows progress.
        tokenizer: folder of the tokenizer of a resumed run.

    Raises:
        UserError: for errors that the user can fix.
    """
    cache = ROOT / settings.cache
    source, objective = components.source, components.objective
    display.say("Preparing corpus and encoder ...", style="dim")
    torch.manual_seed(settings.seed)
    with accelerator.main_process_first():
        encoder = build_encoder(values, settings, objective, source, cache / "tokenizers", tokenizer)
    synthetic = [name for name, facts in objective.own_data().items() if facts.get("synthetic")]
    if synthetic:  # the origin is part of everything written about the encoder
        encoder.origin += f"; learns {', '.join(synthetic)} from synthetic pairs"
    objective.check_encoder(encoder)
    if encoder.fallback:
        display.say(encoder.fallback, "yellow")
    with display.bar("tokenising", None) as update, accelerator.main_process_first():
        store = prepare(
            source,
            encoder.tokenizer,
            cache=cache / "stores",
            sentences=settings.sentences if objective.requirements.unit == "sentence" else None,
            progress=update,
        )
    with display.bar("reading", None) as update:
        corpus = Corpus(
            source, store, encoder.tokenizer, cache, lambda what, done, total: update(done, total, what)
        )
        try:
            task_data = objective.task_data(corpus)
        except UserError as error:
            if error.key == "corpus":
                error.hint = error.hint or LENGTH_HINTS[objective.requirements.unit]
            raise
    parts = Parts(source, encoder, objective, store, task_data)
    parts.require_identity(values["names"])
    objective.build(encoder)
    if settings.warm_start is not None:
        folder = Path(settings.warm_start).expanduser()
        loaded: list[str] = []
        for path in checkpoint.list_checkpoints(folder / "checkpoints")[-1:]:
            checkpoint.verify(path)
            loaded = checkpoint.load_matching(path / checkpoint.OBJECTIVE, objective)
        display.fact("warm start", f"encoder of {folder}; weights of the objective: {', '.join(loaded) or 'none'}")
    parts.require_batches(accelerator.num_processes)
    return parts


def build_encoder(
    values: Mapping[str, Any],
    settings: Settings,
    objective: Objective,
    source: Source,
    cache: Path,
    tokenizer: Path | None,
) -> Encoder:
    """Builds the encoder to train, or several side by side if the objective needs them.

    Raises:
        UnfitError: if the objective cannot train it.
    """
    required = objective.requirements
    start: dict[str, Any] = {}
    if settings.warm_start is not None:
        start = {"path": str(Path(settings.warm_start).expanduser() / config.EXPORT), "weights": "auto"}
        if required.encoders > 1:
            encoder = encoders.load(start["path"])
            if isinstance(encoder, Concatenated) and len(encoder.members) == required.encoders:
                return encoder
            raise UnfitError(f"must hold {required.encoders} encoders side by side", key="warm_start")
    if required.word_order and not config.locate(values["encoder"]["_target_"], "encoder").reads_order:  # type: ignore[attr-defined]
        raise UnfitError(NO_WORD_ORDER.format(values["names"]["encoder"]))
    reads_corpus = not objective.own_data().keys() >= objective.tasks.keys()
    node = values["encoder"] | start
    kind: type[Encoder] = config.locate(node["_target_"], "encoder")
    shape = config.parse(kind, {key: value for key, value in node.items() if key != "_target_"}, "encoder")
    extra = {}
    if kind.needs_tokenizer(**shape):

        def texts() -> Iterable[str]:
            return chain(source.texts() if reads_corpus else (), objective.texts())

        key = (source.texts_key() if reads_corpus else "") + objective.texts_key()
        extra["tokenizer"] = (
            load_tokenizer(tokenizer)
            if tokenizer
            else load_or_train(
                *kind.tokenizer_facts(**shape), lambda: kind.train_tokenizer(texts(), **shape), cache, key
            )
        )
    members: list[Encoder] = [config.build(node, "encoder", **extra) for _ in range(required.encoders)]
    encoder = members[0] if len(members) == 1 else Concatenated(members)
    if required.mask_token:
        encoder.add_mlm_head()
    return encoder
