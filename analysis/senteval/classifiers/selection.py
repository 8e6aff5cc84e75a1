"""Choice of L2, or of width and dropout too, and the predictions (``senteval/tools/validation.py``)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

from analysis.senteval.classifiers.fitting import fit_many
from analysis.senteval.classifiers.training import Fit, Fitted
from analysis.senteval.features import Progress
from analysis.senteval.protocols import L2, SEED, Protocol
from analysis.senteval.scores import mean
from data.errors import UserError

Labelled = tuple[np.ndarray, np.ndarray]  # features, float32 of shape (n, D), and classes, int64 of shape (n,)


class Outcome(NamedTuple):
    """Choices and predictions of a task's classifier.

    Attributes:
        dev: accuracy in percent that chose L2, rounded as in the toolkit; nested folds: mean of the best ones.
        l2: chosen L2 weight; nested folds: one per outer fold.
        probabilities: class probabilities of the test examples, float32 of shape (n_test, C), in the order given;
            nested folds: each from the model that was not trained on it.
        n_dev: number of examples of ``dev``.
        folds: nested folds: each example's outer fold, int64 of shape (n_test,); otherwise None.
        hidden, dropout: chosen width and dropout, if they are tuned.
    """

    dev: float
    l2: float | list[float]
    probabilities: np.ndarray
    n_dev: int
    folds: np.ndarray | None = None
    hidden: int | None = None
    dropout: float | None = None


def nested(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    protocol: Protocol,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Outcome:
    """Evaluates by nested k-fold: each outer fold is tested with the L2 that its own inner folds choose.

    Args:
        features: float32 of shape (n, D).
        labels: int64 of shape (n,), 0 .. C-1.
        classes: C.
        protocol: gives ``folds``, outer and inner, and ``classifier``.
        device: device to train on.
        progress: called with the share done, 0 .. 1.

    Raises:
        UserError: if no class has an example for each fold.
    """
    outer = stratified(labels, protocol.folds)
    inner = [
        (train[inner_train], train[inner_dev])
        for train, _ in outer
        for inner_train, inner_dev in stratified(labels[train], protocol.folds)
    ]
    share = len(inner) * len(L2) / (len(inner) * len(L2) + len(outer))
    found = fit_many(
        features, labels, _with_l2(inner), classes, protocol.classifier,
        device=device, progress=_part(progress, 0, share),
    )  # fmt: skip
    accuracies = np.reshape([one.dev_accuracy for one in found], (len(outer), protocol.folds, len(L2)))
    chosen = [_best(fold) for fold in accuracies]
    found = fit_many(
        features,
        labels,
        [Fit(train, None, l2) for (train, _), (l2, _) in zip(outer, chosen, strict=True)],
        classes,
        protocol.classifier,
        device=device,
        progress=_part(progress, share, 1),
    )
    logits, folds = np.empty((len(labels), classes), np.float32), np.empty(len(labels), np.int64)
    for number, ((_, test), one) in enumerate(zip(outer, found, strict=True)):
        logits[test], folds[test] = one.logits(features[test]), number
    dev = mean([score for _, score in chosen])
    return Outcome(dev, [l2 for l2, _ in chosen], softmax(logits, axis=1), len(labels), folds)


def kfold(
    train: Labelled,
    test: np.ndarray,
    classes: int,
    protocol: Protocol,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Outcome:
    """Chooses L2 by k-fold on ``train``; a fit on all of it predicts ``test``, features of shape (n_test, D).

    Other arguments as in ``nested``.
    """
    fits = _with_l2(stratified(train[1], protocol.folds))
    share = len(fits) / (len(fits) + 1)
    found = fit_many(
        *train, fits, classes, protocol.classifier,
        device=device, progress=_part(progress, 0, share),
    )  # fmt: skip
    l2, dev = _best(np.reshape([one.dev_accuracy for one in found], (protocol.folds, len(L2))))
    everything = [Fit(np.arange(len(train[1])), None, l2)]
    [last] = fit_many(
        *train, everything, classes, protocol.classifier,
        device=device, progress=_part(progress, share, 1),
    )  # fmt: skip
    return Outcome(dev, l2, softmax(last.logits(test), axis=1), len(train[1]))


def split(
    train: Labelled,
    dev: Labelled,
    test: np.ndarray,
    classes: int,
    protocol: Protocol,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Outcome:
    """Chooses L2 on a dev set; that same fit predicts ``test``. Arguments as in ``kfold``."""
    features, labels, parts = _joined(train, dev)
    found = fit_many(
        features, labels, _with_l2([parts]), classes, protocol.classifier, device=device, progress=progress
    )
    l2, score = _best(np.array([[one.dev_accuracy for one in found]]))
    return Outcome(score, l2, softmax(found[L2.index(l2)].logits(test), axis=1), len(dev[1]))


def tuned(
    train: Labelled,
    dev: Labelled,
    test: np.ndarray,
    classes: int,
    protocol: Protocol,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Outcome:
    """Chooses width, dropout and L2 of a hidden layer on a dev set; ties go to the first in the grid.

    ``protocol`` gives ``probing_hidden`` and ``probing_dropout``; other arguments as in ``kfold``.
    """
    features, labels, parts = _joined(train, dev)
    grid = [Fit(*parts, l2, dropout) for dropout, l2 in product(protocol.probing_dropout, L2)]
    best: tuple[float, int, Fit, Fitted] | None = None
    for done, hidden in enumerate(protocol.probing_hidden):
        count = len(protocol.probing_hidden)
        found = fit_many(
            features, labels, grid, classes, replace(protocol.classifier, hidden=hidden),
            device=device, progress=_part(progress, done / count, (done + 1) / count),
        )  # fmt: skip
        for fit, one in zip(grid, found, strict=True):
            score = round(100 * one.dev_accuracy, 2)
            if best is None or score > best[0]:
                best = score, hidden, fit, one
    assert best is not None
    score, hidden, fit, one = best
    probabilities = softmax(one.logits(test), axis=1)
    return Outcome(score, fit.l2, probabilities, len(dev[1]), hidden=hidden, dropout=fit.dropout)


def _joined(train: Labelled, dev: Labelled) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Returns features and labels of both parts, and the rows of each."""
    features, labels = (np.concatenate(both) for both in zip(train, dev, strict=True))
    count = len(train[1])
    return features, labels, (np.arange(count), np.arange(count, len(labels)))


def stratified(labels: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the rows of each fold's train and dev part, as in the toolkit.

    Raises:
        UserError: if no class has enough examples.
    """
    largest = np.bincount(labels).max()
    if largest < count:
        raise UserError(f"{count} folds need as many examples of some class, the largest has {largest}")
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    return list(splitter.split(np.empty(len(labels)), labels))


def _with_l2(folds: list[tuple[np.ndarray, np.ndarray]]) -> list[Fit]:
    return [Fit(train, dev, l2) for train, dev in folds for l2 in L2]


def _best(accuracies: np.ndarray) -> tuple[float, float]:
    """Returns the first best L2 and its score in percent, for accuracies 0 .. 1 of shape (folds, L2)."""
    means = [float(round(100 * np.mean(column), 2)) for column in accuracies.T]
    return L2[int(np.argmax(means))], max(means)


def _part(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """Returns the progress callback of a part that runs from ``start`` to ``stop`` of the whole."""
    if progress is None:
        return None
    return lambda share: progress(start + (stop - start) * share)
