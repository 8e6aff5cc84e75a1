from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from analysis.senteval.classifiers import networks
from analysis.senteval.classifiers.networks import network
from analysis.senteval.classifiers.training import Fit, Fitted
from analysis.senteval.protocols import Classifier
from tests.analysis.senteval.plain_network import plain_fit

QUICK = Classifier(hidden=6, batch=16, patience=2, epoch_size=2, max_epoch=24)


def fit_many(*arguments: Any, together: bool = False, **options: Any) -> list[Fitted]:
    return networks.fit_many(*arguments, device=torch.device("cpu"), together=together, **options)


def examples(n: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=n)
    centres = random.standard_normal((classes, 10))
    return (centres[labels] + 1.5 * random.standard_normal((n, 10))).astype(np.float32), labels


def described(change: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in change.items()) or "no change"


CHANGES: list[dict[str, Any]] = [
    {},
    {"optimizer": "rmsprop"},
    {"dropout": 0.3},
    {"dropout": 0.3, "dropout_last": True},
    {"dropout": 0.1, "optimizer": "rmsprop", "batch": 33},
    {"layers": 3, "dropout": 0.2, "seed": 5},
    {"layers": 2},
    {"hidden": 0},
    {"hidden": 0, "optimizer": "rmsprop", "max_epoch": 9},
    {"layers": 2, "activation": "relu", "dropout": 0.3, "dropout_last": True},
]
# Groups train together only without dropout: the mask of a padded batch draws more random numbers.
CASES = [
    pytest.param(change, together, id=f"{described(change)}, {'together' if together else 'in turn'}")
    for change in CHANGES
    for together in (False, True)
    if not (together and "dropout" in change)
]


@pytest.mark.parametrize(("change", "together"), CASES)
def test_every_fit_equals_the_plain_programs(change: dict[str, Any], together: bool) -> None:
    """Groups differ in numbers of rows, batches and L2 values; they train in turn or, as on a GPU, together."""
    classifier = replace(QUICK, **change)
    features, labels = examples(173)
    folds = [
        (np.arange(120), np.arange(120, 173)),
        (np.arange(50, 173), np.arange(50)),
        (np.arange(7, 122), np.arange(122, 173)),
    ]
    fits = [Fit(*fold, l2) for l2 in (1e-5, 1e-2, 0.3) for fold in folds]
    all_rows = np.arange(173)
    fits += [Fit(all_rows, None, l2) for l2 in (1e-3, 1e-1)]
    found = fit_many(features, labels, fits, 3, classifier, together=together)
    for fit, fitted in zip(fits, found, strict=True):
        expected = plain_fit(features, labels, fit.train, fit.dev, fit.l2, 3, classifier)
        assert fitted.dev_accuracy == expected.dev_accuracy
        np.testing.assert_allclose(fitted.logits(features), expected.logits(features), atol=2e-5)


def test_other_fits_of_a_group_do_not_change_a_fit() -> None:
    classifier = replace(QUICK, dropout=0.2)
    features, labels = examples(150)
    rows = np.arange(100), np.arange(100, 150)
    together = fit_many(features, labels, [Fit(*rows, l2) for l2 in (1e-4, 1.0, 1e-2)], 3, classifier)
    [alone] = fit_many(features, labels, [Fit(*rows, 1e-2)], 3, classifier)
    assert alone.dev_accuracy == together[2].dev_accuracy
    np.testing.assert_allclose(alone.logits(features), together[2].logits(features), atol=1e-5)


def test_global_random_states_are_unchanged() -> None:
    features, labels = examples(60)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit_many(features, labels, [Fit(np.arange(40), np.arange(40, 60), 0.0)], 3, replace(QUICK, dropout=0.5))
    assert torch.equal(torch.rand(3), expected)


def test_the_order_of_layers_follows_toolkit_and_paper() -> None:
    kinds = [[type(layer) for layer in network(4, 2, replace(QUICK, dropout_last=last))] for last in (False, True)]
    assert kinds == [
        [nn.Linear, nn.Dropout, nn.Sigmoid, nn.Linear],
        [nn.Linear, nn.Sigmoid, nn.Dropout, nn.Linear],
    ]
    deep = network(4, 2, replace(QUICK, layers=2, activation="relu", dropout_last=True))
    hidden_layer = [nn.Linear, nn.ReLU, nn.Dropout]
    assert [type(layer) for layer in deep] == [*hidden_layer, *hidden_layer, nn.Linear]
    assert [type(layer) for layer in network(4, 2, Classifier())] == [nn.Linear]


def test_progress_rises_to_one() -> None:
    features, labels = examples(60)
    shares: list[float] = []
    fits = [Fit(np.arange(40), np.arange(40, 60), 0.0), Fit(np.arange(20, 60), np.arange(20), 0.0)]
    fit_many(features, labels, fits, 3, QUICK, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_groups_that_need_too_much_memory_are_trained_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = examples(130)
    folds = [(np.arange(start, start + 90), np.arange(start)) for start in (20, 30, 40)]
    fits = [Fit(*fold, l2) for fold in folds for l2 in (1e-4, 1e-2)]
    sizes: list[int] = []
    stack = networks._Stack

    def recorded(groups: list[Any], *arguments: Any) -> networks._Stack:
        sizes.append(len(groups))
        return stack(groups, *arguments)

    monkeypatch.setattr(networks, "_Stack", recorded)
    expected = fit_many(features, labels, fits, 3, QUICK, together=True)
    monkeypatch.setattr(networks, "MEMORY", 20_000)  # a group takes 8,656 bytes
    found = fit_many(features, labels, fits, 3, QUICK, together=True)
    assert sizes == [3, 2, 1]
    for one, two in zip(expected, found, strict=True):
        assert one.dev_accuracy == two.dev_accuracy
        np.testing.assert_allclose(one.logits(features), two.logits(features), atol=1e-5)


def test_groups_of_equal_size_get_the_dropout_masks_of_single_fits() -> None:
    features, labels = examples(130)
    folds = [(np.arange(start, start + 90), np.arange(start)) for start in (20, 40)]
    fits = [Fit(*fold, 1e-4, dropout) for fold in folds for dropout in (0.0, 0.4)]
    together = fit_many(features, labels, fits, 3, QUICK, together=True)
    for one, two in zip(together, fit_many(features, labels, fits, 3, QUICK), strict=True):
        assert one.dev_accuracy == two.dev_accuracy
        np.testing.assert_allclose(one.logits(features), two.logits(features), atol=1e-5)


def test_what_was_trained_leaves_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: list[Any] = []
    begin = networks._Stack.__init__

    def record(stack: Any, *arguments: Any) -> None:
        stacks.append(weakref.ref(stack))
        begin(stack, *arguments)

    monkeypatch.setattr(networks._Stack, "__init__", record)
    features, labels = examples(80)
    rows = np.arange(80)
    gc.disable()
    try:
        fit_many(features, labels, [Fit(rows[:60], rows[60:], 1e-4), Fit(rows[20:], rows[:20], 1e-4)], 3, QUICK)
        assert [stack() for stack in stacks] == [None, None]
    finally:
        gc.enable()
