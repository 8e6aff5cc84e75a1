"""SNLI: a classifier of [u; v; u*v; |u-v|], with features built a part at a time (``senteval/snli.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn.functional import cross_entropy

from analysis.senteval.classifiers.fitting import initial_weights
from analysis.senteval.classifiers.networks import network
from analysis.senteval.classifiers.training import Patience, Table, toolkit_stream
from analysis.senteval.features import FLOAT, Progress
from analysis.senteval.protocols import SEED, SNLI_EPOCH_SIZE, SNLI_L2, SNLI_MAX_EPOCH, Classifier

CLASSES = 3
_PART = 1 << 18  # numbers of the features that are built at a time in training: a part fits in a core's cache
_EVALUATION_PAIRS = 1024  # pairs at a time in evaluation


class Pairs(NamedTuple):
    """n pairs of sentences.

    Attributes:
        first, second: rows of the matrix of vectors, int64 of shape (n,).
        labels: classes 0 .. 2, int64 of shape (n,).
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray


class Snli(NamedTuple):
    """Predictions of the classifier of the best epoch.

    Attributes:
        dev: accuracy in percent, as the toolkit rounds it.
        probabilities: class probabilities of the test pairs, float32 of shape (n_test, 3).
        epochs: number of epochs trained.
    """

    dev: float
    probabilities: np.ndarray
    epochs: int


def snli(
    vectors: np.ndarray,
    train: Pairs,
    dev: Pairs,
    test: Pairs,
    classifier: Classifier,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Snli:
    """Trains with the toolkit's seeds, batches and early stopping; no L2 is selected.

    Args:
        vectors: vectors of distinct sentences, float32 of shape (m, D); may be memory-mapped. Features are built
            a few batches at a time, of shape (B, 4D).
        classifier: its ``max_epoch`` and ``epoch_size`` are replaced by SNLI's own.
        device: device to train a hidden layer on; without one, training is on the CPU.
        progress: called with the share done, 0 .. 1.
    """
    stream = np.random.RandomState(SEED)
    patience = Patience(classifier.patience)
    epochs = 0
    device = device if classifier.hidden else "cpu"
    with toolkit_stream(device):
        model = _Network(vectors, classifier, device) if classifier.hidden else _Linear(vectors, classifier)
        while not patience.spent and epochs <= SNLI_MAX_EPOCH:
            for _ in range(SNLI_EPOCH_SIZE):
                order = stream.permutation(len(train.labels))
                for done in model.epoch(train, order):
                    if progress is not None:
                        progress((epochs + done / len(order)) / (SNLI_MAX_EPOCH + SNLI_EPOCH_SIZE))
                epochs += 1
            if patience.rises(float((model.scores(dev).argmax(axis=1) == dev.labels).mean())):
                predicted = model.scores(test)
    if progress is not None:
        progress(1.0)
    return Snli(round(100 * patience.best, 2), softmax(predicted, axis=1), epochs)


class _Linear:
    """A logistic regression, trained by the compiled kernels on the CPU; features are built a part at a time."""

    def __init__(self, vectors: np.ndarray, classifier: Classifier) -> None:
        self._vectors, self._classifier = vectors, classifier
        self._weights = initial_weights(4 * vectors.shape[1], CLASSES, SEED)
        self._moments = [np.zeros_like(self._weights) for _ in range(2)]
        self._updates = 0

    def epoch(self, pairs: Pairs, order: np.ndarray) -> Iterator[int]:
        """Makes one pass in the given order; yields how many pairs are done."""
        from analysis.senteval.classifiers import kernels  # late: not needed with a hidden layer

        batch, adam, l2 = self._classifier.batch, self._classifier.optimizer == "adam", np.array([SNLI_L2], FLOAT)
        size = max(_PART // self._weights.shape[1] // batch, 1) * batch
        for begin in range(0, len(order), size):
            rows = order[begin : begin + size]
            features, places = self._features(pairs, rows), np.arange(len(rows))
            self._updates = kernels.train(
                features, pairs.labels[rows], places, places[None].astype(np.int32), self._weights, *self._moments,
                self._updates, l2, CLASSES, batch, adam,
            )  # fmt: skip
            yield begin + len(rows)

    def scores(self, pairs: Pairs) -> np.ndarray:
        """Computes scores of shape (n, 3)."""
        weights, bias = self._weights[:, :-1], self._weights[:, -1]
        return np.concatenate([self._features(pairs, rows) @ weights.T + bias for rows in _parts(pairs)])

    def _features(self, pairs: Pairs, rows: np.ndarray) -> np.ndarray:
        features = np.empty((len(rows), 4, self._vectors.shape[1]), FLOAT)
        u, v, product, distance = features.swapaxes(0, 1)
        u[:], v[:] = self._vectors[pairs.first[rows]], self._vectors[pairs.second[rows]]
        np.multiply(u, v, out=product)
        np.abs(np.subtract(u, v, out=distance), out=distance)
        features.flags.writeable = False  # one type for the compiler
        return features.reshape(len(rows), -1)


class _Network:
    """A classifier with a hidden layer, trained in torch."""

    def __init__(self, vectors: np.ndarray, classifier: Classifier, device: torch.device | str) -> None:
        self._table, self._batch = Table(vectors, device), classifier.batch
        self._model = network(4 * self._table.width, CLASSES, classifier).to(device)
        parameters = self._model.parameters()
        self._optimizer: torch.optim.Optimizer
        if classifier.optimizer == "adam":
            self._optimizer = torch.optim.Adam(parameters, weight_decay=SNLI_L2)
        else:
            self._optimizer = torch.optim.RMSprop(parameters, lr=1e-2, weight_decay=SNLI_L2)

    def epoch(self, pairs: Pairs, order: np.ndarray) -> Iterator[int]:
        """Makes one pass in the given order; yields how many pairs are done."""
        labels = torch.as_tensor(pairs.labels, device=self._table.device)
        for begin in range(0, len(order), self._batch):
            rows = order[begin : begin + self._batch]
            self._optimizer.zero_grad()
            targets = labels[torch.from_numpy(rows).to(self._table.device)]
            cross_entropy(self._model(self._features(pairs, rows)), targets).backward()
            self._optimizer.step()
            yield begin + len(rows)

    @torch.no_grad()
    def scores(self, pairs: Pairs) -> np.ndarray:
        """Computes scores of shape (n, 3)."""
        self._model.eval()
        parts = [self._model(self._features(pairs, rows)).cpu() for rows in _parts(pairs)]
        self._model.train()
        return torch.cat(parts).numpy()

    def _features(self, pairs: Pairs, rows: np.ndarray) -> Tensor:
        u, v = (self._table[torch.from_numpy(sentences[rows])] for sentences in (pairs.first, pairs.second))
        return torch.cat([u, v, u * v, (u - v).abs_()], dim=1)


def _parts(pairs: Pairs) -> list[np.ndarray]:
    """Returns the numbers of all pairs, in parts for evaluation."""
    everyone = np.arange(len(pairs.labels))
    return [everyone[begin : begin + _EVALUATION_PAIRS] for begin in range(0, len(everyone), _EVALUATION_PAIRS)]
