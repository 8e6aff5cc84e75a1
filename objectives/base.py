"""Base class of all objectives.

A subclass of ``Objective`` has six required members: a constructor (which sets ``batch_size``), ``part_names``,
``requirements``, ``sample``, ``collate`` and ``loss``. All other members have defaults, and are overridden only
where an objective needs more: weights of its own (``build``), data of its own (``task_data``), several tasks
(``tasks``). docs/add-an-objective.md builds one step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.errors import UnfitError
from data.loader import Units
from data.randomness import FIXED, generator
from data.selection import Selection
from data.sources.base import Part, Source
from data.store import TokenStore
from data.token_format import TokenFormat
from data.views.perturbations import count_tokens
from encoders.base import Encoder

PARTS: tuple[Part, ...] = ("train", "dev")
COSTED = 64  # training examples from which the default ``step_flops`` estimates the cost of a step
# Name of a buffer with a hash of the vocabulary that its module's weights belong to. A run that starts from the
# checkpoint of another run takes over the weights of such a module only if the hashes agree.
VOCABULARY_ID = "mark"

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
        progress: callback for long work, called with (description, units done, total or None).
    """

    source: Source
    store: TokenStore
    tokenizer: Any
    cache: Path
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None


class TaskData(NamedTuple):
    """Data of one task.

    Attributes:
        units: units of text by number.
        train, dev: numbers of the usable units of either part.
        lengths: lengths of all units, of shape (n,), if batches are to hold units of similar length.
        setting: configuration key that names the origin of the units, for messages.
        contiguous: whether the units of a batch are neighbours, in their order.
    """

    units: Units
    train: Selection
    dev: Selection
    lengths: np.ndarray | None = None
    setting: str = "corpus"
    contiguous: bool = False


@dataclass(frozen=True, eq=False)
class CorpusStatistics:
    """Token statistics of the training part, computed when first read (of large corpora, from a sample).

    Attributes:
        units: units of text by number.
        indices: numbers of the training units, of shape (n,).
    """

    units: Units
    indices: np.ndarray

    @cached_property
    def _counted(self) -> tuple[np.ndarray, float]:
        return count_tokens(self.units, self.indices)

    @property
    def token_counts(self) -> np.ndarray:
        """Number of occurrences of each token id, of shape (largest id + 1,)."""
        return self._counted[0]

    @property
    def mean_length(self) -> float:
        """Mean number of content tokens of a unit."""
        return self._counted[1]


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
        statistics: token statistics of the training part of the run's corpus.
    """

    batch_size: int
    citation: str = ""
    formula: str = ""
    version: ClassVar[int] = 1
    statistics = CorpusStatistics((), np.zeros(0, np.int64))

    def __init_subclass__(cls, **options: Any) -> None:
        """Drops the inherited formula and chance levels of a class that overrides ``loss`` and neither of them."""
        super().__init_subclass__(**options)
        if "loss" in vars(cls):
            for name in {"formula", "chance_levels"} - vars(cls).keys():
                setattr(cls, name, getattr(Objective, name))

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

        The result depends on nothing but the arguments: all randomness comes from ``rng``.
        """

    @abstractmethod
    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Joins examples into a batch, with rows in the order of ``examples``."""

    @abstractmethod
    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        """Computes the loss of a micro-batch; called under the trainer's autocast."""

    def sources(self, example: Any) -> Mapping[str, Sequence[np.ndarray]]:
        """Returns where the tokens of a sampled example come from; shown by ``compare.py``, not used in training.

        Returns:
            By role, for each row the positions in the unit of its tokens, without special tokens; -1 for tokens
            from elsewhere. By default {}: rows are shown without their origin.
        """
        return {}

    # Before training

    @property
    def least_batch(self) -> int:
        """Fewest examples of a batch with a loss."""
        return 2

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder that this objective cannot train; called before any text is tokenised.

        Raises:
            UnfitError: if the pair is impossible: by default, if the encoder ignores word order and
                ``requirements.word_order`` is set.
            UserError: if the encoder could be trained with other settings (longer inputs, say).
        """
        if self.requirements.word_order and not encoder.reads_order:
            raise UnfitError(NO_WORD_ORDER, key=encoder.origin)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the data of each of ``tasks``: by default the units of the run's corpus that it can use.

        Raises:
            UserError: if there are none, or the objective's own data cannot be read.
        """
        found = {}
        for name, task in self.tasks.items():
            required = task.requirements
            train, dev = (
                corpus.store.select(
                    part,
                    min_tokens=required.min_tokens,
                    different_tokens=required.different_tokens,
                )
                for part in PARTS
            )
            found[name] = TaskData(corpus.store, train, dev)
        return found

    def fit_to_corpus(self, units: Units, indices: np.ndarray) -> None:
        """Receives the training part of the run's corpus before ``build``; by default keeps ``statistics``.

        Args:
            units: units of the corpus by number.
            indices: numbers of the training units, of shape (n,): of several tasks, those of the task that can
                use the most.
        """
        self.statistics = CorpusStatistics(units, indices)

    def build(self, encoder: Encoder) -> None:
        """Adds heads and queues, whose sizes depend on ``encoder``: by default none.

        They are trained and saved with the run, and dropped at export.
        """

    # Tasks and their data

    @property
    def tasks(self) -> Mapping[str, Objective]:
        """Tasks by name, one of which provides each micro-batch; by default the objective is its only task."""
        return {"": self}

    def task_at(self, step: int, seed: int) -> str:
        """Returns the name of the task of micro-batch ``step``: by default the tasks alternate."""
        names = list(self.tasks)
        return names[step % len(names)]

    def own_data(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns a description, for model cards, of the data of each task that does not use the run's corpus."""
        return {}

    def texts(self) -> Iterator[str]:
        """Yields training texts from outside the run's corpus, for vocabularies made of the training text."""
        yield from ()

    def texts_key(self) -> str:
        """Returns a fingerprint of ``texts``; "" if there are none."""
        return ""

    # During and after training

    def step_flops(self, encoder: Encoder) -> float:
        """Returns the expected floating-point operations of a training step over one micro-batch of all processes.

        By default three times those of ``encoder`` (a backward pass costs two forward passes) over the token
        blocks of ``COSTED`` training examples of the run's corpus, scaled to ``batch_size``. An objective that has
        other data overrides it.

        Raises:
            ValueError: if there is no training text.
        """
        units, indices = self.statistics.units, self.statistics.indices
        if not len(indices):
            raise ValueError(
                f"{type(self).__name__}.step_flops estimates the cost from the corpus' training text: call "
                "fit_to_corpus first, or override it."
            )
        places = np.linspace(0, len(indices) - 1, min(len(indices), COSTED)).astype(np.int64)
        chosen = indices[places].tolist()
        examples = [self.sample(units[i], encoder.format, generator(FIXED, 0, i)) for i in chosen]
        blocks = self.collate(examples, encoder.format).tokens.values()
        tokens = [(int(block.lengths.sum()), len(block)) for block in blocks]
        flops = sum(encoder.forward_flops(count, count / rows) for count, rows in tokens)
        return 3 * flops * self.batch_size / len(examples)

    def after_step(self) -> None:
        """Called after each optimiser step."""

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Computes each loss part, without dropout, as a mean over those held-out ``batches`` that have it.

        Returns:
            The means as ``dev_<part>``; batches are weighted by ``Loss.counts``, or else by their examples.
        """
        sums: dict[str, float] = {}
        sizes: dict[str, float] = {}
        with evaluating(encoder, self):
            for batch in batches:
                loss = self.loss(encoder, batch)
                for name, value in loss.parts.items():
                    size = float(loss.counts.get(name, batch.size))
                    sums[name] = sums.get(name, 0.0) + float(value) * size
                    sizes[name] = sizes.get(name, 0.0) + size
        return {f"dev_{name}": value / max(sizes[name], 1.0) for name, value in sums.items()}

    def chance_levels(self) -> dict[str, float]:
        """Returns the chance level of each loss part (predicting from label frequencies only), over whole batches.

        Parts whose chance level is not known beforehand are left out.
        """
        return {}

    def facts(self) -> dict[str, Any]:
        """Returns properties to print beside the scores (negatives per anchor, say)."""
        return {}

    def example_predictions(self, encoder: Encoder) -> str:
        """Returns predictions for a few held-out examples, not picked by hand, as Markdown; "" for none."""
        return ""


TaskObjective = TypeVar("TaskObjective", bound=Objective)


class Multitask(Objective, Generic[TaskObjective]):
    """Base of objectives of several tasks, each an objective of its own that samples its own batches.

    Args:
        tasks: by name, which is also the ``Batch.task`` of their batches.
    """

    def __init__(self, tasks: Mapping[str, TaskObjective]) -> None:
        super().__init__()
        self._tasks = dict(tasks)
        self.heads = nn.ModuleDict(self._tasks)  # registers their weights

    @property
    def tasks(self) -> Mapping[str, TaskObjective]:
        return self._tasks

    @property
    def shares(self) -> Mapping[str, float]:
        """Share of the micro-batches of each task, as ``task_at`` gives them: by default all equal."""
        return dict.fromkeys(self._tasks, 1 / len(self._tasks))

    def encoder_of(self, task: str, encoder: Encoder) -> Encoder:
        """Returns the part of ``encoder`` that ``task`` trains: by default all of it."""
        return encoder

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(name for task in self._tasks.values() for name in task.part_names)

    def sample(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> Any:
        """Always raises TypeError: each of ``tasks`` samples its own examples."""
        raise TypeError("Each task samples its own examples.")

    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Always raises TypeError: each of ``tasks`` collates its own examples."""
        raise TypeError("Each task collates its own examples.")

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return self._tasks[batch.task].loss(self.encoder_of(batch.task, encoder), batch)

    def check_encoder(self, encoder: Encoder) -> None:
        for name, task in self._tasks.items():
            task.check_encoder(self.encoder_of(name, encoder))

    def fit_to_corpus(self, units: Units, indices: np.ndarray) -> None:
        """Keeps ``statistics`` for all tasks, so that tokens are counted once."""
        super().fit_to_corpus(units, indices)
        for task in self._tasks.values():
            task.statistics = self.statistics

    def build(self, encoder: Encoder) -> None:
        for name, task in self._tasks.items():
            task.build(self.encoder_of(name, encoder))

    def step_flops(self, encoder: Encoder) -> float:
        """Returns the mean over the tasks, weighted by their ``shares``."""
        tasks = ((share, name, self._tasks[name]) for name, share in self.shares.items())
        return sum(share * task.step_flops(self.encoder_of(name, encoder)) for share, name, task in tasks)

    def chance_levels(self) -> dict[str, float]:
        return {part: value for task in self._tasks.values() for part, value in task.chance_levels().items()}


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
