"""Many fits at once, compiled and in torch, against a plain program that trains one at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from analysis.senteval.classifiers import training
from analysis.senteval.classifiers.training import Fits, Fitted, Networks, fit_many, shared_permutations
from analysis.senteval.protocols import L2, PROTOCOLS, Classifier
from tests.analysis.senteval.plain_network import PlainNetwork, plain_fit

ADAM = replace(PROTOCOLS["default"].classifier, max_epoch=60)
RMSPROP = PROTOCOLS["prototyping"].classifier
SMALL = Classifier(batch=7, epoch_size=2, max_epoch=9)  # stops by max_epoch, after 10 epochs
QUICK = Classifier(hidden=6, batch=16, patience=2, epoch_size=2, max_epoch=24)


def labelled_features(classes: int, n: int = 210, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(classes)
    features = random.normal(size=(n, width)).astype(np.float32)
    noise = random.normal(size=(n, classes))
    return features, (features @ random.normal(size=(width, classes)) + 2 * noise).argmax(1)


@cache
def uneven_fits() -> tuple[Fits, ...]:
    """Fits on folds of different sizes, with different numbers of batches and L2 values, and one without dev."""
    order = np.random.default_rng(1).permutation(210)
    return (
        Fits(order[:129], order[129:], L2),
        Fits(order[5:133], order[:5], L2[1:3]),
        Fits(order[:110], order[110:150], [1e-3]),
        Fits(order[:129], None, [1e-4, 1e-1]),
    )


@cache
def plain_fits(classes: int, classifier: Classifier) -> list[PlainNetwork]:
    return [
        plain_fit(*labelled_features(classes), fits.train, fits.dev, float(l2), classes, classifier)
        for fits in uneven_fits()
        for l2 in fits.l2
    ]


def flat(fitted: list[list[Fitted]]) -> list[Fitted]:
    return [fit for fits in fitted for fit in fits]


def require_equal(
    fitted: list[list[Fitted]], plain: list[PlainNetwork], features: np.ndarray, atol: float
) -> None:
    for fit, expected in zip(flat(fitted), plain, strict=True):
        assert fit.dev_accuracy == expected.dev_accuracy
        probabilities = torch.softmax(torch.from_numpy(expected.logits(features)), dim=1)
        np.testing.assert_allclose(fit.probabilities(features), probabilities, atol=atol)


@pytest.mark.parametrize("device", ["kernels", "torch"])
@pytest.mark.parametrize("classifier", [ADAM, RMSPROP, SMALL], ids=["Adam", "RMSprop", "few epochs"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_regression_equals_the_plain_programs(
    device: str, classifier: Classifier, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "torch":  # as on a GPU with many classes
        monkeypatch.setattr(training, "Regressions", Networks)
    features, labels = labelled_features(classes)
    fitted = fit_many(features, labels, uneven_fits(), classes, classifier)
    require_equal(fitted, plain_fits(classes, classifier), features, 1e-4)


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
    ids=str,
)
def test_every_network_equals_the_plain_programs(change: dict[str, Any]) -> None:
    classifier = replace(QUICK, **change)
    features, labels = labelled_features(3)
    fitted = fit_many(features, labels, uneven_fits(), 3, classifier)
    require_equal(fitted, plain_fits(3, classifier), features, 2e-5)


@pytest.mark.parametrize("classes", [2, 5])
def test_a_regression_is_the_same_alone_and_beside_others_and_with_any_threads(classes: int) -> None:
    features, labels = labelled_features(classes)
    together, threads = flat(fit_many(features, labels, uneven_fits(), classes, ADAM)), torch.get_num_threads()
    singles = [fits._replace(l2=[l2]) for fits in uneven_fits() for l2 in fits.l2]
    alone = [fit_many(features, labels, [fits], classes, ADAM)[0][0] for fits in singles]
    try:
        torch.set_num_threads(7)
        with_seven_threads = flat(fit_many(features, labels, uneven_fits(), classes, ADAM))
    finally:
        torch.set_num_threads(threads)
    for shared, single, threaded in zip(together, alone, with_seven_threads, strict=True):
        assert shared.dev_accuracy == single.dev_accuracy == threaded.dev_accuracy
        for a, b, c in zip(shared.layers, single.layers, threaded.layers, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_patience_counts_all_failed_evaluations() -> None:
    """Dev accuracy is 1 from the start: the first evaluation is the best, and patience + 1 further ones fail."""
    features = np.concatenate([np.full((20, 3), -1.0), np.full((20, 3), 1.0)]).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    fits, classifier = Fits(np.arange(38), np.array([38, 39]), [0.0]), Classifier(epoch_size=50)
    [[fitted]] = fit_many(features, labels, [fits], 2, classifier)
    [[patient]] = fit_many(features, labels, [fits], 2, replace(classifier, patience=1))
    np.testing.assert_array_equal(fitted.layers[0], patient.layers[0])  # the first of equal fits is kept
    assert fitted.dev_accuracy == 1


@pytest.mark.parametrize("classifier", [SMALL, replace(QUICK, dropout=0.5)], ids=["regression", "network"])
def test_global_random_states_are_unchanged(classifier: Classifier) -> None:
    features, labels = labelled_features(2)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    fit_many(features, labels, uneven_fits()[:1], 2, classifier)
    after = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert after == (np.random.rand(), torch.rand(1).item())  # noqa: NPY002


def test_permutations_equal_numpys_legacy_generator() -> None:
    permutations = shared_permutations(1111)
    for _ in range(2):  # drawn once
        random, orders = np.random.RandomState(1111), permutations(50, 0)
        for _ in range(3):
            np.testing.assert_array_equal(next(orders), random.permutation(50))
    random, orders = np.random.RandomState(1111), permutations(59, 2)
    np.testing.assert_array_equal(next(orders), random.permutation(59))
    np.testing.assert_array_equal(next(orders), random.permutation(57))
