"""Batches as a function of the step's number, independent of stopping, resuming and the number of processes."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from data.batch import Batch
from data.errors import UserError
from data.randomness import EXAMPLE, FIXED, ORDER, generator
from data.token_format import TokenFormat

POOL = 100  # batches that are sorted by length together
COUNTED_STEPS = 1000  # micro-batches from which the shares of the tasks are estimated


class Batches(Dataset[Batch], ABC):
    """Micro-batches by number."""

    @property
    @abstractmethod
    def batches_per_epoch(self) -> int:
        """Whole batches of an epoch."""

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Returns this process' rows of micro-batch ``step``, counted from 0 over all epochs."""

    @abstractmethod
    def fixed_batches(self, n_batches: int) -> list[Batch]:
        """Returns ``n_batches`` (of each task) that are the same for every seed and step, for measurements."""

    def expectation(self, measure: Callable[[Batch], float], n_batches: int) -> float:
        """Estimates the mean of ``measure`` from ``fixed_batches``, which have units of all lengths."""
        return fmean(map(measure, self.fixed_batches(n_batches)))

    def mean_tokens(self, n_batches: int) -> float:
        """Estimates the tokens of a micro-batch from ``n_batches`` of each task."""
        return self.expectation(lambda batch: batch.n_tokens, n_batches)

    def __getitem__(self, step: int) -> Batch:
        return self.batch(step)

    def iterate(self, start: int, stop: int, *, workers: int = 0) -> Iterator[Batch]:
        """Yields micro-batches ``start`` to ``stop`` - 1, made ahead by ``workers`` processes (0: on demand)."""
        if workers == 0:
            yield from map(self.batch, range(start, stop))
            return
        from accelerate.utils import patch_environment  # late, as it takes a second

        loader = DataLoader(
            self,
            sampler=range(start, stop),
            batch_size=None,
            num_workers=workers,
            # Stores are open files that a fork shares; Python 3.14's own choice would pickle them.
            multiprocessing_context="fork" if sys.platform == "linux" else None,
            generator=torch.Generator(),  # the default draws from the global one, which would change dropout
        )
        # Else the tokenizers library prints a warning in every process that is forked here.
        with patch_environment(TOKENIZERS_PARALLELISM="false"):
            batches = iter(loader)
        yield from batches


class MultiTaskLoader(Batches):
    """Micro-batches of several tasks, one task each, from a loader for each task.

    An epoch has as many micro-batches as one epoch of all loaders together. A task that gets more or fewer of them
    than its loader has in an epoch goes through its documents more or less than once. Gradient accumulation joins
    successive micro-batches.

    Args:
        loaders: by the name of their task, each with a different ``stream``.
        task_at: returns the name of the task of a micro-batch, by its step and a seed.
        seed: of the micro-batches; expectations have one of their own.
    """

    def __init__(self, loaders: Mapping[str, Loader], task_at: Callable[[int, int], str], seed: int) -> None:
        self.loaders = loaders
        self.task_at = task_at
        self.seed = seed
        self._counts = dict.fromkeys(loaders, 0)
        self._batches: list[tuple[str, int]] = []  # of each micro-batch: its task, and its number within that task

    @property
    def batches_per_epoch(self) -> int:
        """Number of micro-batches of one epoch of every loader together."""
        return sum(loader.batches_per_epoch for loader in self.loaders.values())

    def batch(self, step: int) -> Batch:
        while len(self._batches) <= step:
            name = self.task_at(len(self._batches), self.seed)
            self._batches.append((name, self._counts[name]))
            self._counts[name] += 1
        name, number = self._batches[step]
        return self.loaders[name].batch(number)

    def fixed_batches(self, n_batches: int) -> list[Batch]:
        return [batch for loader in self.loaders.values() for batch in loader.fixed_batches(n_batches)]

    def expectation(self, measure: Callable[[Batch], float], n_batches: int) -> float:
        """Averages the loaders' means, weighted by their share of the micro-batches."""
        steps = Counter(self.task_at(step, 0) for step in range(COUNTED_STEPS))
        means = [count * self.loaders[name].expectation(measure, n_batches) for name, count in steps.items()]
        return sum(means) / COUNTED_STEPS


@dataclass(eq=False)
class Loader(Batches):
    """Micro-batches of examples sampled from documents.

    Each epoch goes through all documents in an order keyed by (seed, epoch, stream). An incomplete batch at its
    end is left out, so that no batch holds a document twice. The example of a document at a step is sampled with a
    generator keyed by (seed, step, document, stream): the same on any rank, in any worker, after any restart.

    Args:
        store: the documents by number, mostly content token ids of shape (n,).
        indices: numbers of the usable documents, of shape (n,).
        sampler: has an objective's methods ``sample`` and ``collate``, which make examples and a batch of them.
        format: token format of the encoder.
        batch_size: documents of a micro-batch over all processes, a multiple of their number.
        seed: of order and examples.
        rank, world: this process and their number; each takes a contiguous share of a batch's rows.
        stream: number of the task; it makes orders and random numbers differ between tasks on the same documents.
        lengths: of the documents, of shape (n,), in the order of ``indices``; if given, the documents of a batch
            have similar lengths: documents are shuffled, each run of ``POOL`` batches is sorted by length and cut
            into batches, and these are shuffled.
        contiguous: whether the documents of a batch are neighbours in ``indices``, and only the batches are
            shuffled. Each epoch begins at a random one of the first documents, so that the borders between batches
            move, and ends with those before it.
        units: name of the documents in messages.
        least: smallest number of held-out documents, unless the batch is smaller.
    """

    store: Any
    indices: Any
    sampler: Any
    format: TokenFormat
    _: KW_ONLY
    batch_size: int
    seed: int
    rank: int = 0
    world: int = 1
    stream: int = 0
    lengths: np.ndarray | None = None
    contiguous: bool = False
    units: str = "documents"
    least: int = 2

    def __post_init__(self) -> None:
        self.indices = np.asarray(self.indices, dtype=np.int64)
        if self.contiguous:  # the copies of a weighted corpus come in further passes, not beside each other
            copies = np.arange(len(self.indices)) - self.indices.searchsorted(self.indices)
            self.indices = self.indices[np.argsort(copies, kind="stable")]
        # Stream 0 adds no number: a trailing zero changes a generator if it is the fifth number of its key.
        self._key = (self.stream,) if self.stream else ()
        self._epoch, self._order = -1, self.indices

    @property
    def batches_per_epoch(self) -> int:
        """Number of whole batches of an epoch.

        Raises:
            UserError: if there are fewer documents than a batch takes.
        """
        if len(self.indices) < self.batch_size:
            raise UserError(
                f"the training part has {len(self.indices)} usable {self.units}, a batch needs {self.batch_size}"
            )
        return len(self.indices) // self.batch_size

    def batch(self, step: int) -> Batch:
        """Returns this process' rows of micro-batch ``step``, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._order = self._shuffled(generator(ORDER, self.seed, epoch, *self._key))
            self._epoch = epoch
        return self._batch(self._order, position, self.batch_size, (EXAMPLE, self.seed, step))

    def fixed_batches(self, n_batches: int) -> list[Batch]:
        """Returns ``n_batches``, or as many as there are, that are the same for every seed and step.

        If the documents do not fill a batch, one smaller batch is returned, of which the processes take shares
        that may differ by a row.

        Raises:
            UserError: if there are fewer than ``least`` documents (or a batch), or than processes.
        """
        size, least = min(self.batch_size, len(self.indices)), max(min(self.least, self.batch_size), self.world)
        if size < least:
            raise UserError(f"the held-out part has {size} usable {self.units}, a measurement needs {least}")
        rng = generator(FIXED, 0, 0, *self._key)
        order = self._runs(rng, size, 0) if self.contiguous else rng.permutation(self.indices)
        count = min(n_batches, len(self.indices) // size)
        return [self._batch(order, position, size, (FIXED, position + 1)) for position in range(count)]

    def _shuffled(self, rng: np.random.Generator) -> np.ndarray:
        """Returns an epoch's documents in order; those after the last whole batch may be left out."""
        if self.contiguous:
            return self._runs(rng, self.batch_size, int(rng.integers(self.batch_size)))
        if self.lengths is None:
            return rng.permutation(self.indices)
        places = rng.permutation(len(self.indices))[: self.batches_per_epoch * self.batch_size]
        batches = []
        for first in range(0, len(places), POOL * self.batch_size):
            pool = places[first : first + POOL * self.batch_size]
            pool = pool[np.argsort(self.lengths[pool], kind="stable")]
            batches.append(rng.permutation(pool.reshape(-1, self.batch_size)))
        return self.indices[np.concatenate(batches).ravel()]

    def _runs(self, rng: np.random.Generator, size: int, first: int) -> np.ndarray:
        """Returns the documents from number ``first`` on in runs of ``size`` neighbours, in random order."""
        count = len(self.indices) // size * size
        return rng.permutation(np.roll(self.indices, -first)[:count].reshape(-1, size)).ravel()

    def _batch(self, order: np.ndarray, position: int, size: int, key: tuple[int, ...]) -> Batch:
        first = position * size
        rows = slice(first + self.rank * size // self.world, first + (self.rank + 1) * size // self.world)
        documents = order[rows]
        examples = [
            self.sampler.sample(self.store[int(i)], self.format, generator(*key, int(i), *self._key))
            for i in documents
        ]
        return self.sampler.collate(examples, self.format)
