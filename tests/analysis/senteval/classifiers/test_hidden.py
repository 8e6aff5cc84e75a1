from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from analysis.senteval.classifiers.fit_groups import Fit
from analysis.senteval.classifiers.hidden import choose_hidden, fit_many, network
from analysis.senteval.protocols import PROTOCOLS, Classifier, Protocol
from tests.analysis.senteval.plain_network import Plain, plain_network

QUICK = Classifier(hidden=6, batch=16, patience=2, epoch_size=2, max_epoch=24)


def examples(n: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=n)
    centres = random.standard_normal((classes, 10))
    return (centres[labels] + 1.5 * random.standard_normal((n, 10))).astype(np.float32), labels


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"optimizer": "rmsprop"},
        {"dropout": 0.3},
        {"dropout": 0.3, "dropout_last": True},
        {"dropout": 0.1, "optimizer": "rmsprop", "batch": 33},
        {"layers": 3, "dropout": 0.2, "seed": 5},
        {"layers": 2, "activation": "relu", "dropout": 0.3, "dropout_last": True},
    ],
)
def test_every_fit_is_that_of_a_plain_program(change: dict[str, object]) -> None:
    classifier = replace(QUICK, **change)  # type: ignore[arg-type]
    features, labels = examples(173)
    folds = [(np.arange(120), np.arange(120, 173)), (np.arange(50, 173), np.arange(50))]
    fits = [Fit(*fold, l2) for l2 in (1e-5, 1e-2, 0.3) for fold in folds]
    everything = np.arange(173)
    fits += [Fit(everything, None, l2) for l2 in (1e-3, 1e-1)]
    found = fit_many(features, labels, fits, 3, classifier)
    for fit, one in zip(fits, found, strict=True):
        dev = None if fit.dev is None else (features[fit.dev], labels[fit.dev])
        expected = plain_network((features[fit.train], labels[fit.train]), dev, fit.l2, 3, classifier)
        assert one.dev_accuracy == expected.dev_accuracy
        np.testing.assert_allclose(one.logits(features), expected.logits(features), atol=2e-5)


def test_what_is_trained_beside_a_fit_does_not_change_it() -> None:
    classifier = replace(QUICK, dropout=0.2)
    features, labels = examples(150)
    rows = np.arange(100), np.arange(100, 150)
    together = fit_many(features, labels, [Fit(*rows, l2) for l2 in (1e-4, 1.0, 1e-2)], 3, classifier)
    [alone] = fit_many(features, labels, [Fit(*rows, 1e-2)], 3, classifier)
    assert alone.dev_accuracy == together[2].dev_accuracy
    np.testing.assert_allclose(alone.logits(features), together[2].logits(features), atol=1e-5)


def test_global_streams_are_left_alone() -> None:
    features, labels = examples(60)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit_many(features, labels, [Fit(np.arange(40), np.arange(40, 60), 0.0)], 3, replace(QUICK, dropout=0.5))
    assert torch.equal(torch.rand(3), expected)


def test_layers_stand_in_the_order_of_toolkit_and_paper() -> None:
    kinds = [[type(layer) for layer in network(4, 2, replace(QUICK, dropout_last=last))] for last in (False, True)]
    assert kinds == [
        [nn.Linear, nn.Dropout, nn.Sigmoid, nn.Linear],
        [nn.Linear, nn.Sigmoid, nn.Dropout, nn.Linear],
    ]
    deep = network(4, 2, replace(QUICK, layers=2, activation="relu", dropout_last=True))
    middle = [nn.Linear, nn.ReLU, nn.Dropout]
    assert [type(layer) for layer in deep] == [*middle, *middle, nn.Linear]
    assert [type(layer) for layer in network(4, 2, Classifier())] == [nn.Linear]


def test_progress_rises_to_one() -> None:
    features, labels = examples(60)
    shares: list[float] = []
    fits = [Fit(np.arange(40), np.arange(40, 60), 0.0), Fit(np.arange(20, 60), np.arange(20), 0.0)]
    fit_many(features, labels, fits, 3, QUICK, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def tuned(widths: tuple[int, ...] = (2, 5), dropouts: tuple[float, ...] = (0.0, 0.2)) -> Protocol:
    classifier = replace(QUICK, hidden=0, dropout_last=True)
    return Protocol("test", "", classifier=classifier, probing_hidden=widths, probing_dropout=dropouts)


def test_the_choice_is_the_first_best_of_all_plain_programs() -> None:
    (train, train_y), (dev, dev_y), (test, test_y) = (examples(90, seed=seed) for seed in (1, 1, 2))
    dev, dev_y, train, train_y = dev[60:], dev_y[60:], train[:60], train_y[:60]
    found = choose_hidden(train, train_y, dev, dev_y, test, test_y, 3, tuned())
    best: tuple[float, int, float, float, Plain] | None = None
    for hidden in (2, 5):
        for dropout in (0.0, 0.2):
            for l2 in (1e-5, 1e-4, 1e-3, 1e-2):
                classifier = replace(QUICK, hidden=hidden, dropout=dropout, dropout_last=True)
                fit = plain_network((train, train_y), (dev, dev_y), l2, 3, classifier)
                score = round(100 * fit.dev_accuracy, 2)
                if best is None or score > best[0]:
                    best = score, hidden, dropout, l2, fit
    assert best is not None
    assert (found.dev, found.hidden, found.dropout, found.l2) == best[:4]
    expected = softmax(best[4].logits(test), axis=1)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-5)
    assert found.test == round(100 * float((expected.argmax(1) == test_y).mean()), 2)
    assert (found.n_dev, found.n_test) == (30, 90)


def test_the_papers_grid_is_searched() -> None:
    protocol = PROTOCOLS["conssent"]
    assert protocol.probing_hidden == (50, 100, 200)
    assert protocol.probing_dropout == (0.0, 0.1, 0.2)
    assert protocol.classifier.dropout_last
    xor = np.random.default_rng(0).standard_normal((400, 2)).astype(np.float32)
    labels = (xor[:, 0] * xor[:, 1] > 0).astype(np.int64)
    quick = replace(protocol, classifier=replace(protocol.classifier, max_epoch=60, epoch_size=20))
    train, dev, test = np.split(np.arange(400), [250, 320])
    found = choose_hidden(xor[train], labels[train], xor[dev], labels[dev], xor[test], labels[test], 2, quick)
    assert found.hidden in protocol.probing_hidden
    assert found.dropout in protocol.probing_dropout
