"""Base of GenSen's tasks, and the sizes that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.errors import rename_keys
from data.loader import Units
from data.pairs import PairSource, PairStore, prepare_pairs
from data.selection import Selection
from data.views.perturbations import MOST_COUNTED, count_tokens
from encoders.base import Encoder
from objectives.base import Corpus, Objective, Requirements, TaskData
from objectives.gather import global_mean


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the tasks share: the arguments of ``GenSen`` with these names."""

    batch_size: int
    max_length: int
    vocab_size: int
    min_count: int
    word_size: int
    hidden: int | None
    dropout: float
    classifier_width: int

    @property
    def content(self) -> int:
        """Most tokens of a source or target, without start and end tokens."""
        return self.max_length - 2


class GenSenTask(Objective):
    """Base of the tasks: a task has its own data and its own head on the shared encoder.

    Args:
        name: name of the task.
        sizes: see ``Sizes``.
        source: pairs of text from which examples are sampled; None: the run's corpus.

    Attributes:
        tokenizer: tokenizer of the targets; None if these are classes.
        surprisals: for each loss part, the -log p of each word or class under its frequency in the training part,
            from which the losses of an evaluation report ``unigram_baseline``.
    """

    requirements = Requirements(unit="sentence")
    tokenizer: Any = None

    def __init__(self, name: str, sizes: Sizes, source: PairSource | None = None) -> None:
        super().__init__()
        self.name = name
        self.sizes = sizes
        self.source = source
        self.batch_size = sizes.batch_size
        self.surprisals: dict[str, Tensor] = {}

    @property
    def synthetic(self) -> bool:
        """Returns whether the examples are generated pairs."""
        return self.source is not None and self.source.synthetic

    @property
    def setting(self) -> str:
        """Configuration key that names the origin of the examples."""
        if self.source is None:
            return "corpus"
        return "objective.synthetic_pairs" if self.synthetic else f"objective.{self.name}"

    @abstractmethod
    def prepare(self, corpus: Corpus) -> TaskData:
        """Returns the task's data, and sets ``surprisals`` and all that ``build`` and ``step_flops`` read.

        Raises:
            UserError: if there are no examples, or they cannot be read.
        """

    def pair_store(self, corpus: Corpus) -> tuple[PairStore, Selection, Selection]:
        """Tokenises the pairs of ``source``.

        Returns:
            The pairs, and the numbers of those of the training and the held-out part.

        Raises:
            UserError: if there are none, or they cannot be read.
        """
        assert self.source is not None, "tasks on the run's corpus have a store already"
        store = prepare_pairs(
            self.source,
            corpus.tokenizer,
            self.tokenizer,
            cache=corpus.cache / "stores",
            progress=partial(corpus.progress, self.name),
        )
        return store, store.select("train"), store.select("dev")

    def unigram_baseline(self, part: str, targets: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Computes loss and accuracy of predicting ``targets`` from their frequencies in training only.

        Args:
            part: name of the loss part.
            targets: words or classes, of shape (N,).

        Returns:
            ``<part>_unigram``, the mean surprisal over the global batch, and ``<part>_accuracy_unigram``, the
            accuracy of always predicting the most frequent target; and the number of targets in the global batch
            by the same names.
        """
        table = self.surprisals[part].to(targets.device)
        _, loss, count = global_mean(table[targets].sum(), len(targets))
        _, correct, _ = global_mean((targets == table.argmin()).sum(), len(targets))
        found = {f"{part}_unigram": loss, f"{part}_accuracy_unigram": correct}
        return found, dict.fromkeys(found, count)

    @abstractmethod
    def predict(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        """Returns the texts of each of ``units`` and the predictions for it, by name."""


def surprisals(
    units: Units,
    indices: np.ndarray,
    size: int,
    end: int | None = None,
    of: Callable[[Any], np.ndarray] = np.asarray,
) -> Tensor:
    """Computes the -log p of each token id under its frequency in a text, with add-one smoothing.

    Args:
        units: of text, by number.
        indices: numbers of the units, of shape (n,); of very many, a sample is read (``count_tokens``).
        size: number of token ids.
        end: id to be counted once more per unit, as its end; None: none.
        of: returns the token ids of a unit; by default these are the unit.

    Returns:
        Surprisals in nats, of shape (size,).
    """
    counts, _ = count_tokens(units, indices, of)
    counts = np.pad(counts, (0, size - len(counts))) + 1
    if end is not None:
        counts[end] += min(len(indices), MOST_COUNTED)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()


def task_keys(task: str) -> AbstractContextManager[None]:
    """Gives errors of sources and vocabularies the keys that the configuration of ``task`` has for them."""
    groups = dict.fromkeys(("parallel", "trees", "inference", "corpus"), f"objective.{task}")
    return rename_keys(**groups, samples="objective.synthetic_pairs", encoder="objective")


def decoded(tokenizer: Any, ids: Sequence[int] | np.ndarray) -> str:
    """Decodes content token ids to text."""
    return tokenizer.decode(list(map(int, ids)), clean_up_tokenization_spaces=False).strip()
