"""What is to be trained and what comes of it: fits, their streams, groups of fits with the same batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.senteval.protocols import SEED
from data.errors import UserError

VALIDATION_SPLIT = 0.05  # share of the training rows that is dev where a fit is given none


class Fit(NamedTuple):
    """One classifier to train. Those whose ``train`` and ``dev`` are the same arrays share their batches.

    Attributes:
        train: rows of the features it learns from, int64.
        dev: rows that choose the best look and the end, int64; None takes the toolkit's 5 % of ``train``: the
            first ``int(0.05 * len(train))`` of the stream's first permutation.
        l2: weight decay.
    """

    train: np.ndarray
    dev: np.ndarray | None
    l2: float


class Fitted(NamedTuple):
    """A trained linear classifier, as it was at its first best look at dev.

    Attributes:
        weight: float32 of shape (C, D).
        bias: float32 of shape (C,).
        dev_accuracy: share of the dev rows that are right, 0 .. 1.
    """

    weight: np.ndarray
    bias: np.ndarray
    dev_accuracy: float

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Scores of shape (m, C), float32, of features of shape (m, D)."""
        return rows @ self.weight.T + self.bias


class Stream:
    """The permutations of all fits of one size: numpy's legacy stream under the toolkit's seed, drawn once.

    Attributes:
        parts: positions of the dev and of the training part where the stream's first permutation splits; else
            None.

    Raises:
        UserError: where the dev part of a split has no row.
    """

    def __init__(self, rows: int, split: bool) -> None:
        self._random = np.random.RandomState(SEED)
        self._drawn: list[np.ndarray] = []
        self._lock = threading.Lock()
        self._rows = rows
        self.parts: tuple[np.ndarray, np.ndarray] | None = None
        if split:
            order, held = self._random.permutation(rows), int(VALIDATION_SPLIT * rows)
            if not held:
                raise UserError(
                    f"A classifier needs at least {1 / VALIDATION_SPLIT:.0f} training examples, as "
                    f"{100 * VALIDATION_SPLIT:.0f} % of them tell when it is done. Got {rows} instead."
                )
            self.parts = order[:held], order[held:]
            self._rows -= held

    def epochs(self, start: int, stop: int) -> np.ndarray:
        """Permutations of the epochs ``start`` .. ``stop`` - 1, int32 of shape (stop - start, training rows)."""
        with self._lock:
            while len(self._drawn) < stop:
                self._drawn.append(self._random.permutation(self._rows).astype(np.int32))
            return np.stack(self._drawn[start:stop])


class Group(NamedTuple):
    """Fits with the same batches.

    Attributes:
        members: their positions in the list of fits.
        train, dev: rows of the features, int64.
        stream: of permutations of ``train``.
    """

    members: list[int]
    train: np.ndarray
    dev: np.ndarray
    stream: Stream


def grouped(fits: Sequence[Fit]) -> list[Group]:
    """``fits`` by the arrays of their rows."""
    groups: dict[tuple[int, int], Group] = {}
    streams: dict[tuple[int, bool], Stream] = {}
    for position, fit in enumerate(fits):
        key = id(fit.train), id(fit.dev)
        if key not in groups:
            size = len(fit.train), fit.dev is None
            if size not in streams:
                streams[size] = Stream(*size)
            groups[key] = Group([], *_rows(fit, streams[size]), streams[size])
        groups[key].members.append(position)
    return list(groups.values())


def _rows(fit: Fit, stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    train = np.ascontiguousarray(fit.train, np.int64)
    if stream.parts is not None:
        dev, train = (train[part] for part in stream.parts)
    else:
        dev = np.ascontiguousarray(fit.dev, np.int64)
    return train, dev
