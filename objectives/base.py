"""What every objective promises: what it draws from text, what it needs, and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.errors import UnfitError
from data.loader import ExampleSampler, Units
from data.schema import validated
from data.selection import Selection
from data.sources.base import Part, Source
from data.store import TokenStore
from data.token_format import TokenFormat
from encoders.base import Encoder

PARTS: tuple[Part, ...] = ("train", "dev")
# Name of a buffer that says what the weights of its module are about (a vocabulary, say): where a run begins with
# those of another one, weights are taken over from under an equal mark alone.
MARK = "mark"


NO_ORDER = (
    "The classes of this objective differ only in the order of words, which the encoder does not read ({}): "
    "choose another encoder or task."
)


class Loss(NamedTuple):
    """A step's loss.

    Attributes:
        total: scalar with gradient. Over several processes the *mean* of the gradients of all processes
            is the gradient of the global batch's loss.
        parts: named detached scalars for the log, already those of the global batch.
        counts: how many tokens of the global batch a part is the mean of, where it is not one of examples.
    """

    total: Tensor
    parts: Mapping[str, Tensor]
    counts: Mapping[str, Tensor] = MappingProxyType({})


@dataclass(frozen=True)
class Needs:
    """What an objective asks of corpus and encoder.

    Attributes:
        unit: what one example is drawn from.
        min_tokens: content tokens that a unit must have to be usable.
        different_tokens: whether a unit must have two different tokens besides.
        mask_token: whether the tokenizer must have a mask token, and the encoder an MLM output layer.
        encoders: encoders of the configured kind that are trained beside each other and give one concatenated
            vector (``encoders.concatenated``).
        order: whether its classes differ in the order of the tokens alone.
        shorter: returns the settings with which units of a number of tokens would do, as "key=value"; "" if there
            are none.
    """

    unit: Literal["document", "sentence"] = "document"
    min_tokens: int = 1
    different_tokens: bool = False
    mask_token: bool = False
    encoders: int = 1
    order: bool = False
    shorter: Callable[[int], str] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Corpus:
    """What a run gives its objective to find its examples in.

    Attributes:
        source: the run's corpus.
        store: the same in the units of ``needs``, under the encoder's tokenizer.
        tokenizer: the encoder's.
        cache: folder that keeps what is made of text.
        progress: told of long work: (what is being done, done, in all or None).
    """

    source: Source
    store: TokenStore
    tokenizer: Any
    cache: Path
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None


class Material(NamedTuple):
    """What one task draws its examples from.

    Attributes:
        units: by number.
        train, dev: the usable ones of either part.
        lengths: of all units, of shape (n,), where batches are to be of units about as long as each other.
        setting: the part of the configuration that says where they are from, for messages.
        contiguous: whether those of a batch are to be neighbours, in their order.
    """

    units: Units
    train: Selection
    dev: Selection
    lengths: np.ndarray | None = None
    setting: str = "corpus"
    contiguous: bool = False


class Task(ExampleSampler, Protocol):
    """What draws batches of its own: an objective, or one of several tasks in it."""

    batch_size: int

    @property
    def needs(self) -> Needs: ...

    def chances(self) -> dict[str, float]: ...


class Objective(nn.Module, ABC):
    """Base of all objectives.

    The constructor takes hyperparameters only, as keywords: it is the schema of the YAML. Its annotations hold
    their ranges (``data.ranges``), which are checked before it runs. ``build`` makes the parts that depend on the
    encoder; they are dropped at export.

    Attributes:
        batch_size: examples of one micro-batch over all processes.
        citation: BibTeX of the paper, for the cards of what is trained with it.
        version: raised whenever the same configuration trains differently, so that finished runs of older code are
            not taken for runs of this one by ``reproduce.py`` and ``compare.py``.
    """

    batch_size: int
    citation: str = ""
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        validated(cls, "objective")

    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the loss parts that ``loss`` gives, hence of the ``dev_<part>`` that ``dev_metrics`` gives."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What this objective asks of corpus and encoder."""

    def texts(self) -> Iterator[str]:
        """Further training text that the encoder will read, for a vocabulary that is made of it."""
        yield from ()

    def texts_key(self) -> str:
        """A name for what ``texts`` gives; "" where there is none."""
        return ""

    def materials(self, corpus: Corpus) -> Mapping[str, Material]:
        """What each of ``tasks`` draws from: by default those units of the run's corpus that it can use.

        Raises:
            UserError: if there are none, or the objective's own data cannot be read.
        """
        found = {}
        for name, task in self.tasks.items():
            needs = task.needs
            train, dev = (
                corpus.store.select(
                    part,
                    min_tokens=needs.min_tokens,
                    different_tokens=needs.different_tokens,
                    shorter=needs.shorter,
                )
                for part in PARTS
            )
            found[name] = Material(corpus.store, train, dev)
        return found

    def own_data(self) -> Mapping[str, Mapping[str, Any]]:
        """Of tasks that do not draw from the run's corpus: what a card says of their data, by their names."""
        return {}

    def study(self, units: Units, indices: np.ndarray) -> None:
        """Looks at the run's corpus, ``units[i]`` for i in ``indices`` (training part), before it is drawn from.

        Where tasks can use different parts of it, this is the largest.
        """

    def require(self, encoder: Encoder) -> None:
        """Refuses an encoder that this cannot train, before text is read for it; ``encoder`` stays as it was.

        Raises:
            UnfitError: if it reads no order of words, and this is of nothing else.
            UserError: if it could with other settings (longer inputs, say).
        """
        if self.needs.order and not encoder.reads_order:
            raise UnfitError(NO_ORDER.format(encoder.origin))

    def build(self, encoder: Encoder) -> None:
        """Makes the heads and queues that depend on the encoder's widths; after ``require`` and ``study``."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        """What is trained in turns, by name; a plain objective is its own single task."""
        return {"": self}

    def turn(self, step: int, seed: int) -> str:
        """Whose turn it is in micro-batch ``step``: a name of ``tasks``; by default one after another."""
        names = list(self.tasks)
        return names[step % len(names)]

    @abstractmethod
    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Any:
        """One example of one unit (content token ids of shape (n,)): a pure function of its arguments."""

    @abstractmethod
    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Joins drawn examples into a batch, rows in the order of ``examples``."""

    @abstractmethod
    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        """Loss of a micro-batch; called under the trainer's autocast."""

    @abstractmethod
    def step_flops(self, encoder: Encoder) -> float:
        """Expected floating-point operations of forward and backward over one micro-batch (all processes)."""

    def after_step(self) -> None:
        """Called after each optimiser step."""

    def chances(self) -> dict[str, float]:
        """What parts of ``part_names`` are for one who knows how frequent the answers are and nothing else.

        Those alone of which that is known beforehand; over whole batches.
        """
        return {}

    def facts(self) -> dict[str, Any]:
        """What a table should say beside the scores (negatives per anchor, say)."""
        return {}

    def samples(self, encoder: Encoder) -> str:
        """Markdown that shows what was learned on a few held-out examples, as it comes; "" where there is none."""
        return ""

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Mean of each loss part over those held-out ``batches`` that have it, as ``dev_<part>``; no dropout.

        Batches weigh as many as the examples, or tokens (``Loss.counts``), that they have.
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
        return {f"dev_{name}": value / sizes[name] for name, value in sums.items()}


class Multitask(Objective):
    """Base of objectives of several tasks, each of which draws batches of its own."""

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, Task]:
        """What is trained in turns, by name."""

    def chances(self) -> dict[str, float]:
        return {part: value for task in self.tasks.values() for part, value in task.chances().items()}

    def draw(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> Any:
        """Nothing: each of ``tasks`` draws its own examples.

        Raises:
            TypeError: always.
        """
        raise TypeError("Each task draws its own examples.")

    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Nothing: each of ``tasks`` collates its own examples.

        Raises:
            TypeError: always.
        """
        raise TypeError("Each task collates its own examples.")


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Without dropout or gradient; afterwards ``modules`` are as they were."""
    training = [module.training for module in modules]
    try:
        with torch.no_grad():
            for module in modules:
                module.eval()
            yield
    finally:
        for module, mode in zip(modules, training, strict=True):
            module.train(mode)
