"""What GenSen's tasks have in common: what they promise to the objective, and their sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from data.batch import Batch
from data.errors import UserError
from data.pairs import PairSource
from data.randomness import FIXED, generator
from data.token_format import TokenFormat
from data.views.perturbations import STUDIED, count_tokens
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Material, Needs
from objectives.gather import sum_over_processes, world_size

SHOWN = 5  # held-out examples of ``samples``


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the tasks share.

    Attributes:
        batch_size: examples of a micro-batch over all processes.
        max_length: tokens of a source or target of the sequence tasks, what begins and ends it included.
        vocab_size: most words of a decoder, five special tokens included.
        min_count: occurrences that such a word needs.
        word_size: of a decoder's word vectors.
        hidden: of a decoder's states; None: as wide as a sentence vector.
        dropout: of the sentence vector in decoders, and of the classifier's input.
        classifier_width: of the layer before the classes.

    Raises:
        ValueError: if a value is out of its range.
    """

    batch_size: int
    max_length: int
    vocab_size: int
    min_count: int
    word_size: int
    hidden: int | None
    dropout: float
    classifier_width: int

    def __post_init__(self) -> None:
        for name, least in (
            ("batch_size", 1),
            ("max_length", 3),  # a token between what begins and what ends a row
            ("vocab_size", 6),
            ("min_count", 1),
            ("word_size", 1),
            ("hidden", 1),
            ("classifier_width", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"objective.{name} must be at least {least}. Got {value} instead.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"objective.dropout must be at least 0 and below 1. Got {self.dropout} instead.")

    @property
    def content(self) -> int:
        """Tokens of a source or target between what begins and what ends it."""
        return self.max_length - 2


class GenSenTask(nn.Module, ABC):
    """One task: it finds its examples, owns its head, and gives a loss.

    Args:
        name: of the task, as its turns have it.
        sizes: see ``Sizes``.
        source: where its examples are from; None: the run's corpus.

    Attributes:
        tokenizer: of its targets, where these are texts.
        material: what ``prepare`` found.
        baselines: for each loss part, what it would be on the held-out targets for one who knows how often each
            word or class occurs in training, and nothing else.
    """

    tokenizer: Any
    material: Material

    def __init__(self, name: str, sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__()
        self.name = name
        self.sizes = sizes
        self.source = source
        self.batch_size = sizes.batch_size
        self.baselines: dict[str, float] = {}

    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the loss parts."""

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    @property
    def synthetic(self) -> bool:
        """Whether a program made the examples up."""
        return self.source is not None and self.source.synthetic

    @abstractmethod
    def prepare(self, corpus: Corpus) -> Material:
        """Finds ``material``, ``baselines``, and what ``build`` and ``step_flops`` must know.

        Raises:
            UserError: if there are none, or they cannot be read.
        """

    @abstractmethod
    def build(self, encoder: Encoder) -> None:
        """Makes the head; after ``prepare``."""

    @abstractmethod
    def draw(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> Any:
        """One example of one unit of ``prepare``; nothing in it is random."""

    @abstractmethod
    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        """Joins examples into a batch."""

    @abstractmethod
    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        """Loss of a micro-batch."""

    @abstractmethod
    def step_flops(self, encoder: Encoder) -> float:
        """Floating-point operations of forward and backward over one micro-batch (all processes)."""

    @abstractmethod
    def show(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        """What becomes of each of ``units``: texts and predictions by name."""

    def samples(self, encoder: Encoder) -> list[dict[str, str]]:
        """``show`` of the first few held-out units in an order of no meaning."""
        indices = generator(FIXED).permutation(self.material.dev.indices)[:SHOWN]
        return self.show(encoder, [self.material.units[int(i)] for i in indices])


def global_mean(total: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of terms that all processes have, from this one's.

    Args:
        total: the sum of this process' terms, a scalar.
        count: their number.

    Returns:
        A scalar with gradient, such that the mean of the processes' gradients is that of the global mean; the
        global mean, detached; and the global number of terms.
    """
    everywhere = sum_over_processes(total.new_tensor(count))
    return world_size() * total / everywhere, sum_over_processes(total) / everywhere, everywhere


@dataclass(frozen=True)
class View:
    """Units of which ``fetch`` makes what is looked at."""

    fetch: Callable[[int], np.ndarray]

    def __getitem__(self, i: int) -> np.ndarray:
        return self.fetch(i)


def unigram_loss(
    fetch: Callable[[int], np.ndarray], train: np.ndarray, dev: np.ndarray, size: int, end: int | None = None
) -> float:
    """Cross-entropy of the tokens of units ``dev`` under their frequencies in units ``train``, in nats a token.

    One is added to each of the ``size`` counts, so that nothing is impossible.

    Args:
        fetch: gives a unit's token ids.
        train, dev: numbers of units; of very many, a sample is read (``count_tokens``).
        size: number of ids.
        end: an id that ends each unit besides, if any does.
    """

    def counted(indices: np.ndarray) -> np.ndarray:
        counts, _ = count_tokens(View(fetch), indices)
        counts = np.pad(counts, (0, size - len(counts)))
        if end is not None:
            counts[end] += min(len(indices), STUDIED)
        return counts

    known, wanted = counted(train) + 1, counted(dev)
    return float(wanted @ -np.log(known / known.sum()) / wanted.sum())


@contextmanager
def blamed(task: str) -> Iterator[None]:
    """Says in what goes wrong within which task's data it is about."""
    try:
        yield
    except (ValueError, UserError) as error:
        kind = UserError if isinstance(error, UserError) else ValueError
        told = str(error).replace("encoder.min_count", "objective.min_count")
        raise kind(f"objective.{task}: {told}") from error


def decoded(tokenizer: Any, ids: Sequence[int] | np.ndarray) -> str:
    """The text of content token ids."""
    return tokenizer.decode(list(map(int, ids)), clean_up_tokenization_spaces=False).strip()
