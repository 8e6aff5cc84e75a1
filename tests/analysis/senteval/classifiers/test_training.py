"""Many fits at once, compiled and in torch, against a plain program that trains one at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from analysis.senteval.classifiers import training
from analysis.senteval.classifiers.training import Fits, Fitted, Networks, fit_many
from analysis.senteval.protocols import L2, PROTOCOLS, ClassifierSettings
from tests.analysis.senteval.plain_network import PlainNetwork, plain_fit

ADAM = replace(PROTOCOLS["default"].classifier, max_epoch=60)
RMSPROP = PROTOCOLS["prototyping"].classifier
SMALL = ClassifierSettings(batch=7, epoch_size=2, max_epoch=9)  # stops by max_epoch, after 10 epochs
QUICK = ClassifierSettings(hidden=6, batch=16, patience=2, epoch_size=2, max_epoch=24)


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
def plain_fits(classes: int, classifier: ClassifierSettings, width: int = 20) -> list[PlainNetwork]:
    return [
        plain_fit(*labelled_features(classes, width=width), fits.train, fits.dev, float(l2), classes, classifier)
        for fits in uneven_fits()
        for l2 in fits.l2
    ]


def flat(fitted: list[list[Fitted]]) -> list[Fitted]:
    return [fit for fits in fitted for fit in fits]


def require_equal(fitted: list[list[Fitted]], plain: list[PlainNetwork], features: np.ndarray) -> None:
    for fit, expected in zip(flat(fitted), plain, strict=True):
        assert fit.dev_accuracy == expected.dev_accuracy
        probabilities = torch.softmax(torch.from_numpy(expected.logits(features)), dim=1)
        np.testing.assert_allclose(fit.probabilities(features), probabilities, atol=2e-5)
        for weight, parameter in zip(fit.layers, expected.model.parameters(), strict=True):
            np.testing.assert_allclose(weight, parameter.detach(), atol=2e-5)


@pytest.mark.parametrize("device", ["kernels", "torch"])
@pytest.mark.parametrize("classifier", [ADAM, RMSPROP, SMALL], ids=["Adam", "RMSprop", "few epochs"])
@pytest.mark.parametrize(("classes", "width"), [(2, 33), (3, 20), (7, 1)])
def test_every_regression_equals_the_plain_programs(
    device: str, classifier: ClassifierSettings, classes: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "torch":  # as on a GPU with many classes
        monkeypatch.setattr(training, "Regressions", Networks)
    features, labels = labelled_features(classes, width=width)
    fitted = fit_many(features, labels, uneven_fits(), classes, classifier)
    require_equal(fitted, plain_fits(classes, classifier, width), features)


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
    require_equal(fitted, plain_fits(3, classifier), features)


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


def test_global_random_states_are_unchanged() -> None:
    features, labels = labelled_features(2)
    states = []
    for classifier in (None, SMALL, replace(QUICK, dropout=0.5)):
        np.random.seed(5)  # noqa: NPY002
        torch.manual_seed(5)
        if classifier:
            fit_many(features, labels, uneven_fits()[:1], 2, classifier)
        states.append((np.random.rand(), torch.rand(1).item()))  # noqa: NPY002
    assert len({*states}) == 1
