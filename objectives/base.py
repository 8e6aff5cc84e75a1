"""Base class of all objectives.

A subclass of ``Objective`` has a constructor (which sets ``batch_size``), ``part_names``, ``requirements``,
``sample`` and ``loss``. It may override ``check_encoder``, ``task_data``, ``build``, ``collate``,
``chance_levels`` and ``facts``. docs/add-an-objective.md builds one step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.errors import UnfitError, rename_keys
from data.sources.base import Part, Source
from data.store import Selection, TokenTable, prepare
from data.token_format import TokenFormat
from encoders.base import Encoder

PARTS: tuple[Part, ...] = ("train", "dev")
REMEMBERED = 1 << 21  # texts that are remembered to skip repetitions; limits memory
NO_WORD_ORDER = "the classes of this objective differ only in word order, which the encoder does not read"


class Loss(NamedTuple):
    """Loss of a micro-batch.

    Attributes:
        total: scalar with gradient. Over several processes the *mean* of the gradients of all processes
            is the gradient of the global batch's loss.
        parts: detached scalars by name for the log, computed over the global batch.
        counts: number of tokens in the global batch over which a part is averaged, for parts that are not
            averages over examples.
    """

    total: Tensor
    parts: Mapping[str, Tensor]
    counts: Mapping[str, Tensor] = MappingProxyType({})


@dataclass(frozen=True)
class Requirements:
    """Requirements of an objective on corpus and encoder.

    Attributes:
        unit: unit of text from which one example is sampled.
        min_tokens: fewest content tokens of a usable unit.
        different_tokens: whether a usable unit must contain two different tokens.
        mask_token: whether the tokenizer must have a mask token, and the encoder an MLM head.
        encoders: number of encoders of the configured kind to train side by side; they are passed as one, which
            concatenates their vectors (``encoders.concatenated``).
        word_order: whether the classes to predict differ only in the order of the tokens.
    """

    unit: Literal["document", "sentence"] = "document"
    min_tokens: int = 1
    different_tokens: bool = False
    mask_token: bool = False
    encoders: int = 1
    word_order: bool = False


@dataclass(frozen=True)
class Corpus:
    """Corpus of a run, from which an objective selects its data.

    Attributes:
        source: the text.
        store: the text in ``requirements.unit``s, tokenised by the encoder's tokenizer.
        tokenizer: the encoder's tokenizer.
        cache: folder for vocabularies and token stores.
        progress: callback for long work, called with (description, units done).
    """

    source: Source
    store: TokenTable
    tokenizer: Any
    cache: Path
    progress: Callable[[str, float], object] = lambda what, done: None


class TaskData(NamedTuple):
    """Data of one task.

    Attributes:
        units: units of text by number.
        train, dev: numbers of the usable units of either part.
        lengths: lengths of all units, of shape (n,), if batches are to hold units of similar length.
        setting: configuration key that names the origin of the units, for messages.
        contiguous: whether the units of a batch are neighbours, in their order.
        least: fewest examples of a batch with a loss.
    """

    units: Any
    train: Selection
    dev: Selection
    lengths: np.ndarray | None = None
    setting: str = "corpus"
    contiguous: bool = False
    least: int = 2


class Objective(nn.Module, ABC):
    """Base of all objectives.

    The constructor takes the hyperparameters as typed keywords and is the schema of the objective's YAML, with
    ranges in its annotations (``data.ranges``).

    Attributes:
        batch_size: examples of one micro-batch over all processes.
        citation: BibTeX of the paper, for model cards.
        formula: the loss in LaTeX as matplotlib's mathtext reads it, a line for each equation; "" for none.
        version: raised whenever the same configuration trains differently, so that ``reproduce.py`` and
            ``compare.py`` do not reuse finished runs of older code.
        perplexities: loss parts whose held-out exponential is logged, too.
        own_sources: by task, the text of the tasks that do not use the run's corpus.
        reads_targets: whether the encoder reads both texts of pairs that have no classes.
        task: name of the only task.
        contiguous, least: see ``TaskData``.
    """

    batch_size: int
    citation: str = ""
    formula: str = ""
    version: ClassVar[int] = 1
    perplexities: tuple[str, ...] = ()
    own_sources: Mapping[str, Source] = MappingProxyType({})
    reads_targets: ClassVar[bool] = False
    task: str = ""
    contiguous: bool = False
    least: int = 2

    # Required of every objective, in addition to a constructor

    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts in ``Loss.parts``, and so of the ``dev_<part>`` in ``dev_metrics``."""

    @property
    @abstractmethod
    def requirements(self) -> Requirements:
        """Requirements on corpus and encoder."""

    @abstractmethod
    def sample(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> Any:
        """Samples one example from one unit of ``task_data`` (by default content token ids, of shape (n,)).

        The result is a ``TokenExample``, or what ``collate`` takes instead. It depends on nothing but the
        arguments: all randomness comes from ``rng``.
        """

    @abstractmethod
    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        """Computes the loss of a micro-batch; called under the trainer's autocast."""

    # Optional

    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Joins examples into a batch, with rows in the order of ``examples``."""
        return Batch.join(examples, format.pad_id, self.task)

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder that this objective cannot train; called before any text is tokenised.

        Raises:
            UnfitError: if it cannot with the settings of both: by default, if the encoder ignores word order and
                ``requirements.word_order`` is set.
        """
        if self.requirements.word_order and not encoder.reads_order:
            raise UnfitError(NO_WORD_ORDER, key=encoder.origin)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the data of each of ``tasks``: by default the units of the run's corpus that it can use.

        Raises:
            UserError: if there are none, or the objective's own data cannot be read.
        """
        required = self.requirements
        train, dev = (
            corpus.store.select(part, min_tokens=required.min_tokens, different_tokens=required.different_tokens)
            for part in PARTS
        )
        return {self.task: TaskData(corpus.store, train, dev, contiguous=self.contiguous, least=self.least)}

    def build(self, encoder: Encoder) -> None:
        """Adds heads and queues, whose sizes depend on ``encoder``: by default none.

        They are trained and saved with the run, and dropped at export.
        """

    def chance_levels(self, size: int) -> dict[str, float]:
        """Returns the chance level of each loss part (predicting from label frequencies only).

        Parts whose chance level is not known beforehand are left out.

        Args:
            size: examples of a batch.
        """
        return {}

    def facts(self) -> dict[str, Any]:
        """Returns properties to print beside the scores (negatives per anchor): by default the synthetic tasks."""
        synthetic = ", ".join(name for name, source in self.own_sources.items() if source.synthetic)
        return {"synthetic": synthetic} if synthetic else {}

    # The same for all, or for all with one task

    def name_parts(self, *values: Any) -> dict[str, Any]:
        """Returns one value for each of ``part_names``, by name."""
        return dict(zip(self.part_names, values, strict=True))

    @property
    def tasks(self) -> Mapping[str, Any]:
        """By name, what samples and collates each task's batches; each micro-batch comes from one of them."""
        return {self.task: self}

    def task_at(self, step: int, seed: int) -> str:
        """Returns the name of the task of micro-batch ``step``."""
        return self.task

    def own_data(self) -> dict[str, dict[str, Any]]:
        """Returns descriptions of ``own_sources``, for model cards."""
        return dict(self._ask_sources("describe"))

    def texts(self) -> Iterator[str]:
        """Yields the texts of ``own_sources`` that an encoder reads, each once, for its vocabulary.

        Repeated texts would make all their words frequent: a premise has several hypotheses, two languages may
        share their English text, and gold trees are repeated.
        """
        seen: set[int] = set()
        for name, source in self.own_sources.items():
            with task_keys(name):
                for text in source.texts(None if source.classes or self.reads_targets else 0):
                    if (digest := hash(text)) not in seen:
                        if len(seen) < REMEMBERED:
                            seen.add(digest)
                        yield text

    def texts_key(self) -> str:
        """Returns a fingerprint of ``texts``; "" if there are none."""
        once = "both once" if self.reads_targets else "once"
        return " ".join(f"{once} {key}" for _, key in self._ask_sources("texts_key"))

    def _ask_sources(self, question: str) -> Iterator[tuple[str, Any]]:
        for name, source in self.own_sources.items():
            with task_keys(name):
                answer = getattr(source, question)()
            yield name, answer

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Computes each loss part, without dropout, as a mean over those held-out ``batches`` that have it.

        Returns:
            The means as ``dev_<part>``; batches are weighted by ``Loss.counts``, or else by their examples. Those
            of ``perplexities`` also as ``dev_<part>_perplexity``.
        """
        sums, sizes = defaultdict[str, float](float), defaultdict[str, float](float)
        with evaluating(encoder, self):
            for batch in batches:
                loss = self.loss(encoder, batch)
                for name, value in loss.parts.items():
                    size = float(loss.counts.get(name, batch.size))
                    sums[name] += float(value) * size
                    sizes[name] += size
        means = {name: value / max(sizes[name], 1.0) for name, value in sums.items()}
        metrics = {f"dev_{name}": value for name, value in means.items()}
        chosen = [name for name in self.perplexities if name in means]
        return metrics | {f"dev_{name}_perplexity": float(np.exp(means[name])) for name in chosen}


class Multitask(Objective):
    """Base of objectives of several tasks.

    Args:
        tasks: by name, which is the ``Batch.task`` of their batches: modules with ``batch_size``, ``part_names``,
            ``task_data``, ``sample``, ``collate``, ``build`` and ``loss``.
    """

    sample: Any = None  # each task samples and collates its own examples
    collate: Any = None

    def __init__(self, tasks: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.heads = nn.ModuleDict(tasks)

    @property
    def tasks(self) -> Mapping[str, Any]:
        return dict(self.heads.items())

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(name for task in self.tasks.values() for name in task.part_names)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        return {name: data for task in self.tasks.values() for name, data in task.task_data(corpus).items()}

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return self.tasks[batch.task].loss(encoder, batch)

    def build(self, encoder: Encoder) -> None:
        for task in self.tasks.values():
            task.build(encoder)


def open_pairs(
    source: Source, corpus: Corpus, task: str, second: Any = None
) -> tuple[TokenTable, Selection, Selection, str]:
    """Tokenises the pairs of ``source``, the second texts by the tokenizer ``second`` (None: the encoder's).

    Returns:
        The pairs, the selections of both parts, and the configuration key of the source.

    Raises:
        UserError: if there are none, or they cannot be read.
    """
    setting = "objective.synthetic_pairs" if source.synthetic else f"objective.{task}"
    with task_keys(task):
        store = prepare(
            source,
            corpus.tokenizer,
            second=second,
            cache=corpus.cache / "stores",
            progress=partial(corpus.progress, task),
        )
    with rename_keys(corpus=setting):
        train, dev = map(store.select, PARTS)
    return store, train, dev, setting


def task_keys(task: str) -> AbstractContextManager[None]:
    """Gives errors of sources and vocabularies the keys that the configuration of ``task`` has for them."""
    groups = dict.fromkeys(("parallel", "trees", "inference", "corpus"), f"objective.{task}")
    return rename_keys(**groups, encoder="objective")


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Switches off gradients and dropout; afterwards ``modules`` are in their former mode, submodules included."""
    training = [module.training for module in modules]
    try:
        with torch.no_grad():
            for module in modules:
                module.eval()
            yield
    finally:
        for module, mode in zip(modules, training, strict=True):
            module.train(mode)
