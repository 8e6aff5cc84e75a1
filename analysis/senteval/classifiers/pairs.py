"""Classifiers of pairs: SNLI, and trained relatedness of STS-B and SICK-R.

SNLI (``senteval/snli.py``): a classifier of [u; v; u*v; |u-v|]; no L2 is selected. Relatedness
(``senteval/tools/relatedness.py``; Tai et al. 2015): a distribution over the scores 1 .. 5 from [|u-v|; u*v],
trained by the mean squared error of softmax; its expected value is the prediction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from analysis.senteval.classifiers.selection import Labelled, Outcome
from analysis.senteval.classifiers.training import (
    Fits,
    Fitted,
    Layers,
    PairFeatures,
    Regressions,
    fit_many,
    initial_layers,
    shared_permutations,
    train,
)
from analysis.senteval.protocols import SEED, SNLI_EPOCH_SIZE, SNLI_L2, SNLI_MAX_EPOCH, ClassifierSettings
from analysis.senteval.scores import correlation

SCORES = 5
RELATEDNESS = ClassifierSettings(patience=3, epoch_size=50, max_epoch=1000)


class PairRows(NamedTuple):
    """n pairs of sentences.

    Attributes:
        first, second: rows of the matrix of vectors, int64 of shape (n,).
        labels: classes 0 .. 2, int64 of shape (n,).
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray


def snli(
    vectors: np.ndarray,
    train_pairs: PairRows,
    dev: PairRows,
    test: PairRows,
    classifier: ClassifierSettings,
    *,
    device: str = "cpu",
) -> Outcome:
    """Trains with the toolkit's seeds, batches and early stopping, and predicts the test pairs.

    Args:
        vectors: vectors of distinct sentences, float32 of shape (m, D); may be memory-mapped. Features are built a
            part at a time.
        classifier: its ``max_epoch`` and ``epoch_size`` are replaced by SNLI's own.
        device: device to train hidden layers on.
    """
    first, second, labels = map(np.concatenate, zip(train_pairs, dev, strict=True))
    train_rows, dev_rows = np.split(np.arange(len(labels)), [len(train_pairs.labels)])
    classifier = replace(classifier, max_epoch=SNLI_MAX_EPOCH, epoch_size=SNLI_EPOCH_SIZE)
    features = PairFeatures(vectors, first, second)
    [[fitted]] = fit_many(features, labels, [Fits(train_rows, dev_rows, [SNLI_L2])], 3, classifier, device=device)
    probabilities = fitted.probabilities(PairFeatures(vectors, test.first, test.second))
    return Outcome(round(100 * fitted.dev_accuracy, 2), SNLI_L2, probabilities)


def relatedness(train_pairs: Labelled, dev: Labelled, test: np.ndarray) -> tuple[float, np.ndarray]:
    """Trains a distribution over the scores 1 .. 5 with the toolkit's seeds, batches and early stopping.

    Args:
        train_pairs, dev: features [|u-v|; u*v], float32 of shape (n, F), and gold scores of shape (n,).
        test: features of the test pairs.

    Returns:
        Pearson on dev, NaN if undefined, which counts as 0 in early stopping; and the expected scores of the test
        pairs, 1 .. 5, float64 of shape (n,).
    """
    features, gold = train_pairs
    rows, start = np.arange(len(gold)), initial_layers([(features.shape[1], SCORES)], SEED)
    regression = Regressions(features, two_point(gold), Fits(rows, rows, [0.0]), start, RELATEDNESS)

    def pearson(layers: Layers) -> float:
        return correlation(expected_scores(layers, dev[0]), dev[1]).pearson

    def dev_scores(_: np.ndarray) -> np.ndarray:
        return np.nan_to_num([pearson(regression.layers(0))])

    [(_, layers)] = train(regression, shared_permutations(SEED), dev_scores)
    return pearson(layers), expected_scores(layers, test)


def two_point(gold: np.ndarray) -> np.ndarray:
    """Converts scores, float64 of shape (n,), to distributions over 1 .. 5, float32 of shape (n, 5).

    The mass of a score between two integers is divided between them (Tai et al. 2015, section 4.2). As in the
    toolkit a score below 1 keeps only the mass on 1, so its row sums to less than one.
    """
    distance = np.abs(gold[:, None] - np.arange(1, SCORES + 1))
    return np.maximum(1 - distance, 0).astype(np.float32)


def expected_scores(layers: Layers, features: np.ndarray) -> np.ndarray:
    """Computes expected scores, float64 of shape (n,), for features of shape (n, F)."""
    return Fitted(0.0, layers).probabilities(features).astype(np.float64) @ np.arange(1.0, SCORES + 1)
