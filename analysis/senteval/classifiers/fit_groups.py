"""Classifiers to train and trained ones, their permutations, and groups of fits that share their batches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from analysis.senteval.protocols import SEED
from data.errors import UserError

ACTIVATIONS: dict[str, nn.Module] = {"sigmoid": nn.Sigmoid(), "relu": nn.ReLU()}
_ROWS = 4096  # rows at a time in evaluation
VALIDATION_SPLIT = 0.05  # share of the training rows used as dev if a fit has no dev set


class Fit(NamedTuple):
    """A classifier to train. Fits whose ``train`` and ``dev`` are the same arrays share their batches.

    Attributes:
        train: training rows of the features, int64.
        dev: dev rows for early stopping, int64. None uses the toolkit's 5 % of ``train``: the first
            ``int(0.05 * len(train))`` of the stream's first permutation.
        l2: weight decay.
        dropout: dropout probability of the hidden layers; None: the classifier's.
    """

    train: np.ndarray
    dev: np.ndarray | None
    l2: float
    dropout: float | None = None


class Fitted(NamedTuple):
    """A trained classifier: its weights at the first best dev evaluation.

    Attributes:
        layers: weight (outputs, inputs) and bias (outputs,) of each layer from D to C, float32.
        dev_accuracy: accuracy on dev, 0 .. 1.
        activation: non-linearity between the layers.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    dev_accuracy: float
    activation: str = "sigmoid"

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Computes scores of shape (m, C), float32, for features of shape (m, D)."""
        (first, first_bias), *others = self.layers
        parts = []
        for begin in range(0, len(rows), _ROWS):
            states = rows[begin : begin + _ROWS] @ first.T + first_bias
            for weight, bias in others:
                states = ACTIVATIONS[self.activation](torch.from_numpy(states)).numpy() @ weight.T + bias
            parts.append(states)
        return np.concatenate(parts)


class Stream:
    """Permutations shared by all fits of one size: NumPy's legacy stream, by default under the toolkit's seed.

    Attributes:
        parts: positions of the dev and the training part if the first permutation splits them; otherwise None.

    Raises:
        UserError: if the dev part of a split has no row.
    """

    def __init__(self, rows: int, split: bool, seed: int = SEED) -> None:
        self._random = np.random.RandomState(seed)
        self._drawn: list[np.ndarray] = []
        self._lock = threading.Lock()
        self._rows = rows
        self.parts: tuple[np.ndarray, np.ndarray] | None = None
        if split:
            order, dev_rows = self._random.permutation(rows), int(VALIDATION_SPLIT * rows)
            if not dev_rows:
                raise UserError(
                    f"A classifier needs at least {1 / VALIDATION_SPLIT:.0f} training examples, as "
                    f"{100 * VALIDATION_SPLIT:.0f} % of them are used for early stopping. Got {rows} instead."
                )
            self.parts = order[:dev_rows], order[dev_rows:]
            self._rows -= dev_rows

    def epochs(self, start: int, stop: int) -> np.ndarray:
        """Returns the permutations of epochs ``start`` .. ``stop`` - 1, int32 of shape (stop - start, rows)."""
        with self._lock:
            while len(self._drawn) < stop:
                self._drawn.append(self._random.permutation(self._rows).astype(np.int32))
            return np.stack(self._drawn[start:stop])


class Group(NamedTuple):
    """Fits with the same batches.

    Attributes:
        members: positions in the list of fits.
        train, dev: rows of the features, int64.
        stream: permutations of ``train``.
    """

    members: list[int]
    train: np.ndarray
    dev: np.ndarray
    stream: Stream


def grouped(fits: Sequence[Fit], seed: int = SEED) -> list[Group]:
    """Groups ``fits`` by their arrays of rows; ``seed`` is that of the permutations."""
    groups: dict[tuple[int, int], Group] = {}
    streams: dict[tuple[int, bool], Stream] = {}
    for position, fit in enumerate(fits):
        key = id(fit.train), id(fit.dev)
        if key not in groups:
            size = len(fit.train), fit.dev is None
            if size not in streams:
                streams[size] = Stream(*size, seed)
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
