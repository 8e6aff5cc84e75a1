"""Shared parts of training (``senteval/tools``): fits, permutations, seed, early stopping, rows, GPU updates."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from analysis.senteval.protocols import SEED
from data.errors import UserError

ACTIVATIONS: dict[str, nn.Module] = {"sigmoid": nn.Sigmoid(), "relu": nn.ReLU()}
VALIDATION_SPLIT = 0.05  # share of the training rows used as dev if a fit has no dev set
_ROWS = 4096  # rows at a time in evaluation
_SPARE = 0.4  # share of a GPU's free memory that one table may take
_CHUNK = 1 << 16  # rows copied there at a time


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
                raise UserError(f"{rows} training examples; early stopping needs {1 / VALIDATION_SPLIT:.0f}")
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


@contextmanager
def toolkit_stream(device: torch.device | str, seed: int = SEED) -> Iterator[None]:
    """Seeds torch's global stream in the context, by default with the toolkit's seed; restores it afterwards."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.random.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


class Patience:
    """Early stopping: counts the dev evaluations without improvement. The count is never reset.

    Args:
        patience: training stops at the (patience + 1)-th such evaluation.
    """

    def __init__(self, patience: int) -> None:
        self.best = -math.inf
        self._left = patience + 1

    def rises(self, score: float) -> bool:
        """Records ``score``; returns True if it is the best so far, as the first one is."""
        if score > self.best:
            self.best = score
            return True
        self._left -= 1
        return False

    @property
    def spent(self) -> bool:
        return self._left == 0


class Table:
    """Rows of a matrix by number, as tensors on ``device``.

    The matrix is copied to a GPU if it fits easily. On the host it may be memory-mapped, and only the rows in use
    are read.

    Args:
        matrix: float32 of shape (n, D).
    """

    def __init__(self, matrix: np.ndarray, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.width = matrix.shape[1]
        self._host = matrix
        self._here: Tensor | None = None
        if self.device.type == "cuda" and matrix.nbytes < _SPARE * torch.cuda.mem_get_info(self.device)[0]:
            self._here = torch.empty(matrix.shape, dtype=torch.float32, device=self.device)
            for begin in range(0, len(matrix), _CHUNK):
                part = np.array(matrix[begin : begin + _CHUNK], dtype=np.float32)
                self._here[begin : begin + _CHUNK] = torch.from_numpy(part)

    def __getitem__(self, rows: Tensor) -> Tensor:
        if self._here is not None:
            return self._here[rows.to(self.device)]
        return torch.from_numpy(self._host[rows.numpy()]).to(self.device)

    @property
    def on_gpu(self) -> bool:
        """Returns whether the whole matrix is on a GPU."""
        return self._here is not None


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Returns the stream that records on ``device``; torch's own is on the first device that records."""
    return torch.cuda.Stream(device)


class Recorded:
    """Makes updates, whose kernels a GPU records and then starts by one call, in less time than one by one.

    The first update is made as it is, so that torch prepares what the others need. Later ones are recorded and
    repeated if their inputs have the same shapes and are on a GPU.

    Args:
        generators: random generators that the updates use.
    """

    def __init__(self, generators: Iterable[torch.Generator] = ()) -> None:
        self._generators = [*generators]
        self._shapes: list[torch.Size] | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Tensor] = []

    def __call__(self, update: Callable[..., None], *inputs: Tensor) -> None:
        """Makes an update.

        Args:
            update: always the same function. It works on tensors that stay where they are, and on ``inputs``; it
                never waits for the GPU.
        """
        if not inputs[0].is_cuda:
            update(*inputs)
            return
        with torch.cuda.device(inputs[0].device):
            self._on_gpu(update, inputs)

    def _on_gpu(self, update: Callable[..., None], inputs: tuple[Tensor, ...]) -> None:
        shapes = [one.shape for one in inputs]
        if shapes != self._shapes:
            self._shapes = self._shapes or shapes
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
                update(*inputs)
            return
        if self._graph is None:
            self._inputs = [one.clone() for one in inputs]
            graph = torch.cuda.CUDAGraph()
            for generator in self._generators:
                graph.register_generator_state(generator)
            stream = _stream(inputs[0].device)
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                update(*self._inputs)
            self._graph = graph
        for here, given in zip(self._inputs, inputs, strict=True):
            here.copy_(given)
        self._graph.replay()
