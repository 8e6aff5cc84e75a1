"""The components of a run, built from its configuration: corpus, encoder, objective, token store, loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from accelerate import Accelerator

import encoders
from analysis.models import EXPORT
from data.errors import ShortTextError, UnfitError, UserError
from data.files import read_yaml
from data.loader import Batches, Loader, MultiTaskLoader
from data.sources.base import Part, Source
from data.store import TokenStore, prepare
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from experiments import checkpoint, compose
from experiments.advice import advised
from experiments.optimizer import Start, start_of
from experiments.overrides import typed
from experiments.progress import Display
from experiments.run_folder import LEARNS, ROOT
from experiments.settings import Settings
from objectives.base import NO_WORD_ORDER, Corpus, Objective, TaskData


@dataclass
class Parts:
    """The components of a run.

    Attributes:
        task_data: the data of each of the objective's tasks, by the task's name.
        start: kind of the initial weights, which chooses the peak learning rate.
        start_reason: why it is of this kind.
    """

    source: Source
    encoder: Encoder
    objective: Objective
    store: TokenStore
    task_data: Mapping[str, TaskData]
    start: Start
    start_reason: str

    def batches(self, part: Part, seed: int, rank: int = 0, world: int = 1) -> Batches:
        """The micro-batches of process ``rank`` of ``world``."""
        loaders = self._loaders(part, seed, rank, world)
        return (
            next(iter(loaders.values()))
            if len(loaders) == 1
            else MultiTaskLoader(loaders, partial(self._task_at, seed))
        )

    def _loaders(self, part: Part, seed: int, rank: int, world: int) -> dict[str, Loader]:
        loaders = {}
        own = self.objective.own_data()
        for stream, (name, task) in enumerate(self.objective.tasks.items()):
            data = self.task_data[name]
            indices = (data.train if part == "train" else data.dev).indices
            unit = f"pairs of {name}" if name in own else f"{self.objective.requirements.unit}s"
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
                units=unit,
                least=task.least_batch,
            )
        return loaders

    def require_batches(self, processes: int) -> None:
        """Refuses data that do not fill a batch of ``processes``, or are too few for a measurement.

        Raises:
            ShortTextError: if it is the run's corpus.
            UserError: if it is an objective's own data.
        """
        own = self.objective.own_data()
        parts: tuple[Part, ...] = ("train", "dev")
        for part in parts:
            for name, loader in self._loaders(part, 0, 0, processes).items():
                try:
                    _ = loader.batches_per_epoch if part == "train" else loader.fixed(0)
                except ShortTextError as error:
                    if name not in own:
                        raise
                    more = _more(self.task_data[name].setting, own[name], part)
                    if error.units > 1:
                        more = f"write objective.batch_size={error.units // processes * processes}, or {more}"
                    raise UserError(f"{error} {more[0].upper()}{more[1:]}.") from None

    def _task_at(self, seed: int, step: int) -> str:
        return self.objective.task_at(step, seed)

    def identity(self) -> dict[str, str]:
        """Names of the weights and the text that a resumed run must find again."""
        encoder = self.encoder
        stores = " ".join(_stores(self.source, self.objective, self.store, self.task_data))
        return {"weights": encoder.weights, "origin": encoder.origin, "store": stores}


def build(
    config: dict[str, Any],
    settings: Settings,
    accelerator: Accelerator,
    display: Display,
    tokenizer: Path | None,
) -> Parts:
    """Builds all components; cheap refusals come before downloads and tokenising.

    Args:
        config: the run's.
        settings: the run's.
        accelerator: its processes.
        display: shows progress.
        tokenizer: folder of the tokenizer of a resumed run.

    Raises:
        UserError: for errors that the user can fix.
    """
    try:
        return _build(config, settings, accelerator, display, tokenizer)
    except ShortTextError as error:
        display.say(f"{error} Looking for settings that work ...", style="dim")
        processes = accelerator.num_processes
        with TemporaryDirectory() as folder:
            advice = advised(error, config, partial(_attempt, Path(folder), processes), processes)
        raise advice from None


def _attempt(
    cache: Path, processes: int, config: dict[str, Any], prepare_source: Callable[[Source], None]
) -> None:
    """Builds what of a run depends on the length of its text, as ``build`` does.

    Args:
        cache: folder for stores and tokenizers.
        processes: of the run.
        config: the run's.
        prepare_source: gets the source before it is read.

    Raises:
        UserError: as ``build`` does.
    """
    settings = Settings.of(config)
    source: Source = compose.build(config["corpus"], "corpus")
    prepare_source(source)
    objective: Objective = compose.build(config["objective"], "objective")
    require_division((task.batch_size for task in objective.tasks.values()), processes)
    encoder = _encoder(config, settings, objective, source, cache / "tokenizers", None)
    objective.check_encoder(encoder)
    sentences = settings.sentences if objective.requirements.unit == "sentence" else None
    store = prepare(source, encoder.tokenizer, cache=cache / "stores", sentences=sentences, workers=0)
    task_data = objective.task_data(Corpus(source, store, encoder.tokenizer, cache))
    Parts(source, encoder, objective, store, task_data, "untrained", "").require_batches(processes)


def _build(
    config: dict[str, Any],
    settings: Settings,
    accelerator: Accelerator,
    display: Display,
    tokenizer: Path | None,
) -> Parts:
    cache = ROOT / settings.cache
    source: Source = compose.build(config["corpus"], "corpus")
    objective: Objective = compose.build(config["objective"], "objective")
    require_division((task.batch_size for task in objective.tasks.values()), accelerator.num_processes)
    display.say("Preparing corpus and encoder ...", style="dim")
    torch.manual_seed(settings.seed)
    with accelerator.main_process_first():
        encoder = _encoder(config, settings, objective, source, cache / "tokenizers", tokenizer)
    made_up = [name for name, facts in objective.own_data().items() if facts.get("synthetic")]
    if made_up:  # the origin is part of everything written about the encoder
        encoder.origin += f"{LEARNS}{', '.join(made_up)} from synthetic pairs"
    if (began := config["names"].get("origin", encoder.origin)) != encoder.origin:
        raise UserError(
            f"The run began with weights {began}, and here is {encoder.origin}: it cannot go on without them."
        )
    objective.check_encoder(encoder)
    fallback = getattr(encoder, "fallback", None)
    if fallback:
        display.warn(fallback)
    if objective.requirements.mask_token and not encoder.has_mlm_head:
        encoder.add_mlm_head()  # type: ignore[operator]
        display.warn(f"{encoder.origin} has no masked-language-model head: it gets a new one.")
    with (
        display.bar("tokenising", None) as update,
        accelerator.main_process_first() if accelerator.num_processes > 1 else nullcontext(),
    ):
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
        task_data = objective.task_data(corpus)
    require_same(config, _stores(source, objective, store, task_data))
    of_corpus = [one.train.indices for one in task_data.values() if one.units is store]
    if of_corpus:
        objective.fit_to_corpus(store, max(of_corpus, key=len))
    objective.build(encoder)
    if settings.warm_start is not None:
        newest = checkpoint.found(Path(settings.warm_start) / "checkpoints")[-1:]
        taken: list[str] = []
        for one in newest:
            checkpoint.verify(one)
            taken = checkpoint.load_matching(one / checkpoint.OBJECTIVE, objective)
        what = f"{objective.requirements.encoders} encoders" if objective.requirements.encoders > 1 else "encoder"
        line = f"continues the {what} of {settings.warm_start}, sizes and words included"
        display.fact("warm start", f"{line}; weights taken over by the objective: {', '.join(taken) or 'none'}")
    parts = Parts(source, encoder, objective, store, task_data, *_start(settings, encoder))
    parts.require_batches(accelerator.num_processes)
    return parts


def require_fit(config: dict[str, Any]) -> None:
    """Refuses an encoder that the objective cannot train, as ``build`` does, without training anything.

    Raises:
        UnfitError: in one line.
        UserError: for what else keeps the encoder from being built.
    """
    objective: Objective = compose.build(config["objective"], "objective")
    source: Source = compose.build(config["corpus"], "corpus")
    settings = Settings.of(config)
    objective.check_encoder(
        _encoder(config, settings, objective, source, ROOT / settings.cache / "tokenizers", None)
    )


def require_division(sizes: Iterable[int], processes: int) -> None:
    """Refuses batch ``sizes`` that do not divide by the number of ``processes``.

    Raises:
        UserError: if there is one.
    """
    for size in sizes:
        if size % processes:
            raise UserError(
                f"processes={processes}: a batch of {size} cannot be divided evenly among them; "
                "objective.batch_size must be a multiple of processes."
            )


def _encoder(
    config: dict[str, Any],
    settings: Settings,
    objective: Objective,
    source: Source,
    cache: Path,
    tokenizer: Path | None,
) -> Encoder:
    """Builds the encoder to train, or several side by side if the objective needs them."""
    required = objective.requirements
    reads_corpus = not objective.own_data().keys() >= objective.tasks.keys()
    start: dict[str, Any] = {}
    if settings.warm_start is not None:
        start = {"path": str(Path(settings.warm_start) / EXPORT), "weights": "auto"}
    if required.encoders > 1 and start:
        return _concatenated(start["path"], required.encoders)
    kind = compose.locate(config["encoder"]["_target_"], "encoder")
    if start and kind is not Concatenated and (Path(start["path"]) / "encoder_1").is_dir():
        raise UserError(
            f"warm_start={settings.warm_start} holds several encoders side by side, and this objective trains "
            "one: encoder=concatenated continues all of them, "
            f"{typed('encoder.path', start['path'] + '/encoder_1')} in place of warm_start= the first."
        )
    if required.word_order and not kind.reads_order:
        raise UnfitError(NO_WORD_ORDER.format(config["names"]["encoder"]))  # before what would not help is advised
    try:
        built: list[Encoder] = [
            compose.build(
                config["encoder"] | start,
                "encoder",
                texts=lambda: chain(source.texts() if reads_corpus else (), objective.texts()),
                texts_key=lambda: (source.texts_key() if reads_corpus else "") + objective.texts_key(),
                cache=cache,
                tokenizer=tokenizer,
                require_mask_token=required.mask_token,
            )
            for _ in range(required.encoders)
        ]
    except UnfitError as error:  # it has no mask token
        advice = f"Choose another encoder{', or objective.mlm_weight=0' * (len(objective.part_names) > 1)}."
        raise UnfitError(f"{error} {advice}") from None
    except ValueError as error:
        if not str(error).startswith("encoder."):
            raise
        raise UserError(str(error)) from None
    return built[0] if len(built) == 1 else Concatenated(built)


def _start(settings: Settings, encoder: Encoder) -> tuple[Start, str]:
    """Returns the kind of weights that training begins with, and the reason in words.

    The peak of the first continuation of weights that began at random is too high for a second one, which takes
    that of published weights.
    """
    start = start_of(encoder)
    if start == "untrained":
        return start, "the weights are drawn at random"
    if start == "trained":
        return start, "the weights are published ones"
    if settings.warm_start is None:
        return start, "the weights were trained with this suite from random ones"
    before: dict[str, Any] = {}
    with suppress(OSError, ValueError):  # an export without its run
        before = read_yaml(Path(settings.warm_start) / "config.yaml")
    if not before:
        return "trained", f"the history of {settings.warm_start} is not known"
    names, chosen = before.get("names"), before.get("encoder")
    random = isinstance(names, dict) and names.get("weights") == "random"
    continued = before.get("warm_start") or (isinstance(chosen, dict) and chosen.get("path"))
    if random and not continued:
        return start, f"{settings.warm_start} began with random weights, and this is its first continuation"
    return "trained", f"{settings.warm_start} did not begin with random weights, or was a continuation itself"


def _concatenated(folder: str, count: int) -> Concatenated:
    """Loads ``count`` encoders that were trained side by side from their export.

    Raises:
        UserError: if there is another number of them, or another encoder.
    """
    encoder = encoders.load(folder)
    if isinstance(encoder, Concatenated) and len(encoder.members) == count:
        return encoder
    found = f"{len(encoder.members)} of them" if isinstance(encoder, Concatenated) else type(encoder).__name__
    raise UserError(
        f"warm_start: {folder} must hold {count} concatenated encoders, which this objective trains beside each "
        f"other. Got {found} instead."
    )


def _more(setting: str, described: Mapping[str, Any], part: Part) -> str:
    """Advice, for messages, on how to get more pairs for the ``part`` of a task with data of its own."""
    if described.get("synthetic"):
        return f"raise {setting}"
    held_out = f"raise {setting}.dev_fraction, or name held-out pairs there"
    return held_out if part == "dev" else f"take more pairs ({setting})"


def _stores(
    source: Source, objective: Objective, store: TokenStore, task_data: Mapping[str, TaskData]
) -> dict[str, str]:
    """Fingerprints of all tokenised text of the run, each with the place that it is from."""
    own = objective.own_data()
    found = {store.fingerprint: f"corpus ({source.describe()['where']})"}
    for name in own:
        units: Any = task_data[name].units
        found.setdefault(units.fingerprint, f"{name} ({own[name]['where']})")
    return found


def require_same(config: dict[str, Any], stores: Mapping[str, str]) -> None:
    """Refuses to resume a run with other text or tokens than it began with; ``stores`` as ``_stores`` gives them.

    Raises:
        UserError: if they are not those that the run's configuration names.
    """
    before = config["names"].get("store")
    if before is not None and before != " ".join(stores):
        changed = "; ".join(where for mark, where in stores.items() if mark not in before.split())
        raise UserError(
            f"The run began with other text or another tokenizer: {changed or 'something is missing'}. It cannot "
            "go on without what it had."
        )
