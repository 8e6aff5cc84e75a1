"""Probes of frozen vectors with SentEval's classifiers: logistic regression and a multilayer perceptron.

    linear    Linear                                                       L2 chosen by dev accuracy
    hidden    [Linear -> ReLU -> dropout] x layers -> Linear               no L2

Features are standardised by the training part. Both classifiers are trained as in the SentEval toolkit (Conneau &
Kiela 2018): Adam, and the weights of the first best dev evaluation. Sizes and dropout are the papers' (Subramanian
et al. 2018, table 4 and section 10.6; Adi et al. 2016). Unspecified there and chosen here: non-linearity,
optimizer, batch, L2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from analysis.senteval.classifiers.fitting import fit_many
from analysis.senteval.classifiers.training import Fit, Fitted
from analysis.senteval.features import Progress
from analysis.senteval.protocols import SEED, Classifier
from data.errors import UserError

L2 = (1.0, 0.1, 0.01, 0.001)  # ties on dev go to the strongest
WIDTH = 1024  # units of a hidden layer
BATCH = 128  # of a perceptron
LEAST_UPDATES = 50  # of a perceptron between two dev evaluations: an epoch of 1,000 examples is 8
DEV_EVALUATIONS = 30  # of a perceptron, at most
ROWS = 2048  # standardised at a time


class ProbeData:
    """Features and classes of a probe's training, dev and test examples, in this order.

    Args:
        features: float32 of shape (n, F); standardised in place.
        labels: classes 0 .. C-1, int64 of shape (n,).
        train, dev: numbers of training and dev examples; the others are test examples.

    Attributes:
        train, dev, test: row numbers of each part, int64.

    Raises:
        UserError: if there is no training or test example, or training has only one class.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, *, train: int, dev: int = 0) -> None:
        self.features, self.labels = features, labels
        self.train, self.dev, self.test = np.split(np.arange(len(labels)), [train, train + dev])
        for name, part in (("training", self.train), ("test", self.test)):
            if not len(part):
                raise UserError(f"no {name} example")
        if len(np.unique(labels[self.train])) < 2:
            raise UserError("all training examples are of one class")
        self.classes = int(labels[self.train].max()) + 1
        _standardise(features, train)


class Probe(NamedTuple):
    """A probe's result.

    Attributes:
        dev: accuracy on dev in percent.
        test: accuracy on test in percent.
        predictions: classes of the test examples, int64 of shape (n_test,).
        l2: L2 weight of the classifier.
    """

    dev: float
    test: float
    predictions: np.ndarray
    l2: float


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Computes the percentage of equal entries of two (n,) arrays."""
    return 100.0 * float(np.mean(predictions == labels))


def fit_linear(
    examples: ProbeData,
    *,
    l2: Sequence[float] = L2,
    updates: int | None = None,
    device: torch.device | str = "cpu",
) -> Probe:
    """Fits logistic regression; on a CPU the result is the same to the last bit for any number of threads.

    Args:
        l2: values to choose from on dev; ties go to the first.
        updates: trains for the epochs that make at least so many updates, and the training part takes the place
            of dev. None stops early by dev.

    Raises:
        UserError: if there is no dev example and ``updates`` is not given.
    """
    classifier = Classifier()
    if updates is None:
        dev = _dev(examples)
    else:
        epochs, dev = _epochs(updates, examples, classifier.batch), examples.train
        classifier = replace(classifier, epoch_size=epochs, max_epoch=epochs - 1)
    fits = [Fit(examples.train, dev, value) for value in l2]
    found = fit_many(examples.features, examples.labels, fits, examples.classes, classifier, device=device)
    best = max(range(len(fits)), key=lambda number: found[number].dev_accuracy)
    return _tested(examples, found[best], l2[best])


def fit_hidden(
    examples: ProbeData,
    *,
    layers: int,
    dropout: float,
    width: int = WIDTH,
    seed: int = SEED,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Probe:
    """Fits a multilayer perceptron; on a CPU the same seed and number of threads give the same result.

    Args:
        layers: number of hidden layers of ``width`` units.
        dropout: dropout probability after each hidden layer.
        seed: seed of weights, order and dropout.
        progress: called with the share of the maximum number of epochs done, 0 to 1.

    Raises:
        UserError: if there is no dev example.
    """
    epoch_size = _epochs(LEAST_UPDATES, examples, BATCH)
    classifier = Classifier(
        hidden=width,
        layers=layers,
        activation="relu",
        dropout=dropout,
        dropout_last=True,
        batch=BATCH,
        epoch_size=epoch_size,
        max_epoch=DEV_EVALUATIONS * epoch_size - 1,
        seed=seed,
    )
    [found] = fit_many(
        examples.features,
        examples.labels,
        [Fit(examples.train, _dev(examples), 0.0)],
        examples.classes,
        classifier,
        device=device,
        progress=progress,
    )
    return _tested(examples, found, 0.0)


def _epochs(updates: int, examples: ProbeData, batch: int) -> int:
    """Returns the number of epochs with at least ``updates`` updates."""
    return math.ceil(updates / math.ceil(len(examples.train) / batch))


def _dev(examples: ProbeData) -> np.ndarray:
    if not len(examples.dev):
        raise UserError("no dev example")
    return examples.dev


def _tested(examples: ProbeData, fitted: Fitted, l2: float) -> Probe:
    test = slice(examples.test[0], None)
    predictions = fitted.logits(examples.features[test]).argmax(axis=1)
    dev, reached = 100.0 * float(fitted.dev_accuracy), accuracy(predictions, examples.labels[test])
    return Probe(dev, reached, predictions, l2)


def _standardise(features: np.ndarray, train: int) -> None:
    """Scales ``features`` (n, F) in place by mean and standard deviation of the first ``train`` rows.

    Constant features are only centred.
    """
    total = square = np.zeros(features.shape[1])
    for block in _blocks(features[:train]):
        rows = block.astype(np.float64)
        total, square = total + rows.sum(axis=0), square + (rows**2).sum(axis=0)
    mean = total / train
    deviation = np.sqrt(np.maximum(square / train - mean**2, 0))
    deviation = np.where(deviation > 1e-6 * (1 + np.abs(mean)), deviation, 1.0)
    for block in _blocks(features):
        block[:] = (block - mean) / deviation


def _blocks(features: np.ndarray) -> Iterator[np.ndarray]:
    return (features[start : start + ROWS] for start in range(0, len(features), ROWS))
