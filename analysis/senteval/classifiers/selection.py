"""Choice of L2, or of width and dropout too, and the predictions (``senteval/tools/validation.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from analysis.senteval.classifiers.training import Fits, Fitted, fit_many
from analysis.senteval.protocols import L2, SEED, Protocol
from analysis.senteval.scores import mean
from data.errors import reading

Labelled = tuple[np.ndarray, np.ndarray]  # features, float32 of shape (n, D), and labels of shape (n,)


class Outcome(NamedTuple):
    """Choices and predictions of a task's classifier.

    Attributes:
        dev: accuracy in percent that chose L2, rounded as in the toolkit; nested folds: mean of the best ones.
        l2: chosen L2 weight, float; nested folds: a list with one per outer fold.
        probabilities: class probabilities of the test examples, float32 of shape (n_test, C), in their order;
            nested folds: each from the model that was not trained on it.
        folds: nested folds: each example's outer fold, int64 of shape (n_test,); otherwise None.
        hidden, dropout: chosen width and dropout, if they are tuned.
    """

    dev: float
    l2: Any
    probabilities: np.ndarray
    folds: np.ndarray | None = None
    hidden: int | None = None
    dropout: float | None = None


def nested(
    features: np.ndarray, labels: np.ndarray, classes: int, protocol: Protocol, *, device: str = "cpu"
) -> Outcome:
    """Evaluates by nested k-fold: each outer fold is tested with the L2 that its own inner folds choose.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        classes: C.
        protocol: gives ``folds``, outer and inner, and ``classifier``.
        device: device to train on.

    Raises:
        UserError: if no class has an example for each fold.
    """
    outcomes, folds = [], np.empty(len(labels), np.int64)
    probabilities = np.empty((len(labels), classes), np.float32)
    for number, (train, test) in enumerate(stratified(labels, protocol.folds)):
        outcome = kfold((features[train], labels[train]), features[test], classes, protocol, device=device)
        probabilities[test], folds[test] = outcome.probabilities, number
        outcomes.append(outcome)
    dev = mean([outcome.dev for outcome in outcomes])
    return Outcome(dev, [outcome.l2 for outcome in outcomes], probabilities, folds)


def kfold(train: Labelled, test: np.ndarray, classes: int, protocol: Protocol, *, device: str = "cpu") -> Outcome:
    """Chooses L2 by k-fold on ``train``; a fit on all of it predicts ``test``, features of shape (n_test, D).

    Other arguments as in ``nested``.
    """
    fits = [Fits(*rows, L2) for rows in stratified(train[1], protocol.folds)]
    best, dev = _best(fit_many(*train, fits, classes, protocol.classifier, device=device))
    last = Fits(np.arange(len(train[1])), None, [L2[best]])
    [[classifier]] = fit_many(*train, [last], classes, protocol.classifier, device=device)
    return Outcome(dev, L2[best], classifier.probabilities(test))


def split(
    train: Labelled, dev: Labelled, test: np.ndarray, classes: int, protocol: Protocol, *, device: str = "cpu"
) -> Outcome:
    """Chooses L2, and one of the classifiers of ``protocol.probing``, on a dev set; that fit predicts ``test``.

    Ties go to the first classifier and its smallest L2. Arguments as in ``kfold``.
    """
    features, labels = (np.concatenate(both) for both in zip(train, dev, strict=True))
    train_rows, dev_rows = np.split(np.arange(len(labels)), [len(train[1])])
    fits, choices = Fits(train_rows, dev_rows, L2), protocol.probing or (protocol.classifier,)
    fitted = list[Fitted]()
    for classifier in choices:
        fitted += fit_many(features, labels, [fits], classes, classifier, device=device)[0]
    best, dev_score = _best([fitted])
    choice, l2 = [*product(choices, L2)][best]
    outcome = Outcome(dev_score, l2, fitted[best].probabilities(test))
    return outcome._replace(hidden=choice.hidden, dropout=choice.dropout) if protocol.probing else outcome


def stratified(labels: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the rows of each fold's train and dev part, as in the toolkit.

    Raises:
        UserError: if no class has enough examples.
    """
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    with reading(f"set of {count} folds", ""):
        return [*splitter.split(labels, labels)]


def _best(fitted: Sequence[Sequence[Fitted]]) -> tuple[int, float]:
    """Returns the position of the first best classifier and its score in percent, a mean over the folds.

    Args:
        fitted: for each fold the classifiers of each setting.
    """
    settings = zip(*fitted, strict=True)
    means = [float(round(100 * np.mean([fit.dev_accuracy for fit in fits]), 2)) for fits in settings]
    return int(np.argmax(means)), max(means)
