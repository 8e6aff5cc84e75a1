"""What GenSen's tasks have in common: what they promise to the objective, and their sizes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch
from data.errors import UserError
from data.pairs import PairSource
from data.randomness import FIXED, generator
from data.ranges import AtLeast3, AtLeast6, Below1, Count, Size, Width
from data.schema import require
from data.token_format import TokenFormat
from data.views.perturbations import STUDIED, count_tokens
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Material, Needs
from objectives.gather import global_mean

SHOWN = 5  # held-out examples of ``samples``
SETTINGS = re.compile(r"(?<![\w./-])(?:parallel|trees|inference)\.(?=[a-z])")  # keys, as those sources name them


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

    batch_size: Size
    max_length: AtLeast3  # a token between what begins and what ends a row
    vocab_size: AtLeast6
    min_count: Count
    word_size: Width
    hidden: Width | None
    dropout: Below1
    classifier_width: Width

    def __post_init__(self) -> None:
        require(type(self), vars(self), "objective")

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
        surprisals: for each loss part -log p of each word or class, of its frequency in training (``surprisals``).
            A held-out loss has their mean over the same targets beside it (``unigram``).
    """

    tokenizer: Any
    material: Material

    def __init__(self, name: str, sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__()
        self.name = name
        self.sizes = sizes
        self.source = source
        self.batch_size = sizes.batch_size
        self.surprisals: dict[str, Tensor] = {}

    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the loss parts."""

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    def chances(self) -> dict[str, float]:
        """See ``Objective``; ``unigram`` tells it of the very targets."""
        return {}

    @property
    def synthetic(self) -> bool:
        """Whether a program made the examples up."""
        return self.source is not None and self.source.synthetic

    @property
    def setting(self) -> str:
        """The part of the configuration that says where the examples are from."""
        if self.source is None:
            return "corpus"
        return "objective.synthetic_pairs" if self.synthetic else f"objective.{self.name}"

    @abstractmethod
    def prepare(self, corpus: Corpus) -> Material:
        """Finds ``material``, ``surprisals``, and what ``build`` and ``step_flops`` must know.

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
        """Loss of a micro-batch; besides, where this is no training, those of ``unigram``."""

    def unigram(self, part: str, wanted: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What one gets of ``wanted``, of shape (N,), who knows frequencies in training and nothing else.

        Returns:
            ``<part>_unigram``, the global mean of their surprisals, and ``<part>_accuracy_unigram``, how often the
            most frequent one is right; and the global number of targets by the same names.
        """
        table = self.surprisals[part].to(wanted.device)
        _, loss, count = global_mean(table[wanted].sum(), len(wanted))
        _, right, _ = global_mean((wanted == table.argmin()).sum(), len(wanted))
        found = {f"{part}_unigram": loss, f"{part}_accuracy_unigram": right}
        return found, dict.fromkeys(found, count)

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


@dataclass(frozen=True)
class View:
    """Units of which ``fetch`` makes what is looked at."""

    fetch: Callable[[int], np.ndarray]

    def __getitem__(self, i: int) -> np.ndarray:
        return self.fetch(i)


def surprisals(
    fetch: Callable[[int], np.ndarray], indices: np.ndarray, size: int, end: int | None = None
) -> Tensor:
    """-log p of each id under the frequencies of the tokens of some units, in nats, of shape (size,).

    One is added to each count, so that nothing is impossible.

    Args:
        fetch: gives a unit's token ids.
        indices: numbers of units; of very many, a sample is read (``count_tokens``).
        size: number of ids.
        end: an id that ends each unit besides, if any does.
    """
    counts, _ = count_tokens(View(fetch), indices)
    counts = np.pad(counts, (0, size - len(counts))) + 1
    if end is not None:
        counts[end] += min(len(indices), STUDIED)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()


@contextmanager
def blamed(task: str) -> Iterator[None]:
    """Says of what goes wrong within a task's data whose it is, with the keys that the configuration has."""
    key = f"objective.{task}"
    try:
        yield
    except (ValueError, UserError) as error:
        kind = UserError if isinstance(error, UserError) else ValueError
        told = SETTINGS.sub(f"{key}.", str(error)).replace("encoder.min_count", "objective.min_count")
        told = told.replace("samples.pairs", "objective.synthetic_pairs")
        raise kind(told if told.startswith(f"{key}.") else f"{key}: {told}") from error


def decoded(tokenizer: Any, ids: Sequence[int] | np.ndarray) -> str:
    """The text of content token ids."""
    return tokenizer.decode(list(map(int, ids)), clean_up_tokenization_spaces=False).strip()
