"""Classifiers on frozen vectors: logistic regression and a multilayer perceptron, selected on dev, tested once.

    logistic     min_W  mean_i cross entropy(W x_i, y_i) + (l2 / 2) |W|^2        l2 by dev accuracy
    perceptron   x -> [Linear -> ReLU -> dropout] x layers -> Linear             the best dev evaluation

Features are standardised by the training part. Both equations are the papers' (Subramanian et al. 2018, table 4
and section 10.6; Adi et al. 2016). Unspecified there and chosen here: non-linearity, optimizer, batch, L2.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import UserError

L2 = (1.0, 0.1, 0.01, 0.001)  # ties on dev go to the strongest
WIDTH = 1024
LEARNING_RATE = 1e-3
BATCH = 128
LEAST_STEPS = 50  # between two dev evaluations: an epoch of 1,000 examples is 8
DEV_EVALUATIONS, PATIENCE = 30, 5  # maximum number; consecutive ones without improvement that stop training
EVALUATION_ROWS = 2048  # rows at a time in evaluation
ROUNDS = 1000  # maximum iterations of L-BFGS


class Rows(Protocol):
    """Features by row numbers: an array of shape (n, F), or an object that builds rows on demand."""

    def __getitem__(self, index: np.ndarray, /) -> np.ndarray:
        """Returns float32 rows of shape (m, F)."""


class Gathered:
    """Rows combined on demand from rows of several matrices.

    Args:
        sources: matrices of shape (N, D), each with its row numbers of shape (n,).
        combine: function from one (m, D) array per source to an (m, F) array.
    """

    def __init__(
        self, sources: Sequence[tuple[np.ndarray, np.ndarray]], combine: Callable[..., np.ndarray]
    ) -> None:
        self._sources = sources
        self._combine = combine

    def __getitem__(self, index: np.ndarray, /) -> np.ndarray:
        return self._combine(*(matrix[places[index]] for matrix, places in self._sources))


def side_by_side(*rows: np.ndarray) -> np.ndarray:
    """Concatenates arrays of shape (m, D) to [a; b; ...]."""
    return np.hstack(rows)


def compared(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Combines two (m, D) arrays to [u; v; |u - v|; u * v] of shape (m, 4 D) (Conneau et al. 2017)."""
    return np.hstack([u, v, np.abs(u - v), u * v])


class Examples(NamedTuple):
    """Features of n examples and their classes, int64 of shape (n,)."""

    rows: Rows
    labels: np.ndarray

    def first(self, count: int) -> Examples:
        """Returns the first ``count`` examples."""
        return Examples(self.rows, self.labels[:count])


class Fit(NamedTuple):
    """A classifier's result.

    Attributes:
        dev: accuracy on dev in percent.
        predictions: classes of the test examples, int64 of shape (n_test,).
        chosen: values chosen on dev: {"l2": ...} or {"steps": ...}.
    """

    dev: float
    predictions: np.ndarray
    chosen: dict[str, float]


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Computes the percentage of equal entries of two (n,) arrays."""
    return 100.0 * float(np.mean(predictions == labels))


def logistic(train: Examples, dev: Examples, test: Examples) -> Fit:
    """Fits logistic regression (scikit-learn, L-BFGS) for each value of ``L2``, with training features in memory.

    Raises:
        UserError: if a part is empty, or training has only one class.
    """
    from sklearn.exceptions import ConvergenceWarning  # late: takes seconds, and commands check arguments first
    from sklearn.linear_model import LogisticRegression

    _check(train, dev, test)
    scale = _Scale(train)
    features = np.concatenate(list(scale.blocks(train)))
    classifier = LogisticRegression(max_iter=ROUNDS, warm_start=True)
    best: Fit | None = None
    for l2 in L2:
        classifier.set_params(C=1.0 / (l2 * len(features)))  # scikit-learn weights the sum of the losses
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the dev score decides
            classifier.fit(features, train.labels)
        score = accuracy(np.concatenate([classifier.predict(block) for block in scale.blocks(dev)]), dev.labels)
        if best is None or score > best.dev:
            predictions = np.concatenate([classifier.predict(block) for block in scale.blocks(test)])
            best = Fit(score, predictions, {"l2": l2})
    assert best is not None
    return best


def perceptron(
    train: Examples,
    dev: Examples,
    test: Examples,
    *,
    layers: int,
    dropout: float,
    seed: int,
    width: int = WIDTH,
    device: torch.device | str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Fit:
    """Trains a multilayer perceptron with Adam; on a CPU the same seed gives the same result.

    Args:
        layers: number of hidden layers of ``width`` units.
        dropout: dropout probability after each hidden layer.
        seed: seed of weights, order and dropout.
        progress: called with the share of the maximum number of steps done, 0 to 1.

    Raises:
        UserError: if a part is empty, or training has only one class.
    """
    _check(train, dev, test)
    scale = _Scale(train)
    device = torch.device(device)
    host, drops = torch.Generator().manual_seed(seed), torch.Generator(device).manual_seed(seed)
    sizes = [scale.width, *[width] * layers, int(train.labels.max()) + 1]
    network = _network(sizes, dropout, host, drops).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    batches = _batches(len(train.labels), host)
    steps = max(math.ceil(len(train.labels) / BATCH), LEAST_STEPS)
    best, kept, chosen, waited = -math.inf, {}, 0, 0
    for evaluation in range(1, DEV_EVALUATIONS + 1):
        network.train()
        for _ in range(steps):
            index = next(batches)
            loss = F.cross_entropy(
                network(scale.tensor(train, index).to(device)),
                torch.from_numpy(train.labels[index]).to(device),
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = accuracy(_predict(network, scale, dev, device), dev.labels)
        if score > best:
            best, chosen, waited = score, evaluation * steps, 0
            kept = {name: weight.clone() for name, weight in network.state_dict().items()}
        else:
            waited += 1
        if progress is not None:
            progress(evaluation / DEV_EVALUATIONS)
        if waited == PATIENCE:
            break
    network.load_state_dict(kept)
    return Fit(best, _predict(network, scale, test, device), {"steps": chosen})


class _Scale:
    """Standardisation by mean and standard deviation of training features; constant features are only centred."""

    def __init__(self, train: Examples) -> None:
        total = square = np.zeros(0)
        for index in _blocks(len(train.labels)):
            rows = train.rows[index].astype(np.float64)
            total = total + rows.sum(axis=0) if len(total) else rows.sum(axis=0)
            square = square + (rows**2).sum(axis=0) if len(square) else (rows**2).sum(axis=0)
        count = len(train.labels)
        self._mean = total / count
        spread = np.sqrt(np.maximum(square / count - self._mean**2, 0))
        self._spread = np.where(spread > 1e-6 * (1 + np.abs(self._mean)), spread, 1.0)
        self.width = len(total)

    def blocks(self, examples: Examples) -> Iterator[np.ndarray]:
        """Yields the standardised features of all ``examples`` in blocks."""
        for index in _blocks(len(examples.labels)):
            yield self._standardised(examples, index)

    def tensor(self, examples: Examples, index: np.ndarray) -> Tensor:
        return torch.from_numpy(self._standardised(examples, index))

    def _standardised(self, examples: Examples, index: np.ndarray) -> np.ndarray:
        return ((examples.rows[index] - self._mean) / self._spread).astype(np.float32)


class _Dropout(nn.Module):
    """Dropout with masks from its own generator (torch's uses the global one)."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate
        self._generator = generator

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return states
        kept = torch.rand(states.shape, generator=self._generator, device=states.device) >= self.rate
        return states * kept / (1 - self.rate)


def _network(sizes: Sequence[int], dropout: float, host: torch.Generator, drops: torch.Generator) -> nn.Sequential:
    """Builds layers of ``sizes`` with torch's default initialisation, sampled from ``host``."""
    parts: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
        nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=host)
        nn.init.uniform_(layer.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=host)
        parts += [layer, nn.ReLU(), _Dropout(dropout, drops)]
    return nn.Sequential(*parts[:-2])


def _batches(count: int, generator: torch.Generator) -> Iterator[np.ndarray]:
    """Yields row numbers of batches without end, in a new order for each epoch."""
    while True:
        order = torch.randperm(count, generator=generator).numpy()
        yield from (order[start : start + BATCH] for start in range(0, count, BATCH))


def _blocks(count: int) -> Iterator[np.ndarray]:
    return (np.arange(start, min(start + EVALUATION_ROWS, count)) for start in range(0, count, EVALUATION_ROWS))


@torch.no_grad()
def _predict(network: nn.Module, scale: _Scale, examples: Examples, device: torch.device) -> np.ndarray:
    network.eval()
    scores = [network(torch.from_numpy(block).to(device)) for block in scale.blocks(examples)]
    return torch.cat(scores).argmax(dim=1).cpu().numpy()


def _check(train: Examples, dev: Examples, test: Examples) -> None:
    for name, part in (("training", train), ("dev", dev), ("test", test)):
        if len(part.labels) == 0:
            raise UserError(f"There is no {name} example.")
    if len(np.unique(train.labels)) < 2:
        raise UserError("All training examples are of one class: a classifier needs two.")
