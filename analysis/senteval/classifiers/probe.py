"""Probes of frozen vectors with SentEval's classifiers: logistic regression and a multilayer perceptron.

    linear    Linear                                                       L2 chosen by dev accuracy
    MLP       [Linear -> ReLU -> dropout] x layers -> Linear               no L2

Features are standardised by the training part. Both classifiers are trained as in the SentEval toolkit (Conneau &
Kiela 2018): Adam, and the weights of the first best dev evaluation. Sizes and dropout are the papers' (Subramanian
et al. 2018, table 4 and section 10.6; Adi et al. 2016). Unspecified there and chosen here: non-linearity,
optimizer, batch, L2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.preprocessing import StandardScaler

from analysis.senteval.classifiers.training import Fits, fit_many
from analysis.senteval.protocols import SEED, ClassifierSettings
from data.errors import UserError

L2 = (1.0, 0.1, 0.01, 0.001)  # ties on dev go to the strongest
MLP = ClassifierSettings(activation="relu", dropout_last=True, batch=128)
LEAST_UPDATES = 50  # of an MLP between two dev evaluations: an epoch of 1,000 examples is 8
DEV_EVALUATIONS = 30  # of an MLP, at most
ROWS = 2048  # standardised at a time


class ProbeData:
    """Features and classes of a probe's training, dev and test examples, in this order.

    Args:
        features: float32 of shape (n, F); standardised in place by the training examples.
        labels: classes 0 .. C-1, int64 of shape (n,).
        train, dev: numbers of training and dev examples; the others are test examples.

    Raises:
        UserError: if there is no test example, or training has only one class.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, *, train: int, dev: int = 0) -> None:
        self.features, self.labels, self.train = features, labels, np.arange(train)
        self.dev, self.test = np.arange(train, train + dev), slice(train + dev, None)
        if len(labels) <= train + dev or len(np.unique(labels[:train])) < 2:
            raise UserError("a probe needs training examples of two classes, and a test example")
        scaler = StandardScaler()
        for rows in np.split(features[:train], range(ROWS, train, ROWS)):
            scaler.partial_fit(rows)
        for rows in np.split(features, range(ROWS, len(features), ROWS)):
            # In double precision; constant features are only centred.
            rows[:] = (rows - scaler.mean_) / scaler.scale_

    def accuracy(self, predictions: np.ndarray) -> float:
        """Returns the percentage of test examples whose class is predicted, int64 of shape (n_test,)."""
        return 100.0 * float(np.mean(self.labels[self.test] == predictions))


def linear_probe(
    examples: ProbeData, *, l2: Sequence[float] = L2, updates: int | None = None, device: str = "cpu"
) -> np.ndarray:
    """Predicts the test examples by logistic regression; on a CPU the same to the last bit for any threads.

    Args:
        l2: values to choose from on dev; ties go to the first.
        updates: trains for the epochs that make at least so many updates, and the training part takes the place
            of dev. None stops early by dev.

    Raises:
        UserError: if there is no dev example and ``updates`` is None.
    """
    if updates is None:
        return _fit(examples, Fits(examples.train, examples.dev, l2), ClassifierSettings(), device)
    classifier = _schedule(ClassifierSettings(), updates, examples, 1)
    return _fit(examples, Fits(examples.train, examples.train, l2), classifier, device)


def mlp_probe(
    examples: ProbeData, *, layers: int, dropout: float, width: int = 1024, seed: int = SEED, device: str = "cpu"
) -> np.ndarray:
    """Predicts the test examples by a perceptron; on a CPU the same for the same seed and number of threads.

    Args:
        layers: number of hidden layers of ``width`` units.
        dropout: dropout probability after each hidden layer.
        seed: seed of weights, order and dropout.

    Raises:
        UserError: if there is no dev example.
    """
    classifier = replace(MLP, hidden=width, layers=layers, dropout=dropout, seed=seed)
    classifier = _schedule(classifier, LEAST_UPDATES, examples, DEV_EVALUATIONS)
    return _fit(examples, Fits(examples.train, examples.dev, [0.0]), classifier, device)


def _schedule(
    classifier: ClassifierSettings, updates: int, examples: ProbeData, evaluations: int
) -> ClassifierSettings:
    """Sets the epochs between dev evaluations, with at least ``updates`` updates, and the number of these."""
    epochs = math.ceil(updates / math.ceil(len(examples.train) / classifier.batch))
    return replace(classifier, epoch_size=epochs, max_epoch=evaluations * epochs - 1)


def _fit(examples: ProbeData, fits: Fits, classifier: ClassifierSettings, device: str) -> np.ndarray:
    """Fits classifiers; returns the classes that the first that is best on dev predicts, of shape (n_test,)."""
    if not len(fits.dev):  # type: ignore[arg-type]
        raise UserError("no dev example")
    features, labels = examples.features, examples.labels
    classes = int(labels[examples.train].max()) + 1
    [fitted] = fit_many(features, labels, [fits], classes, classifier, device=device)
    best = int(np.argmax([fit.dev_accuracy for fit in fitted]))
    return fitted[best].probabilities(features[examples.test]).argmax(axis=1)
