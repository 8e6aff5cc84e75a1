"""Many fits at once, compiled and batched, against the program that trains one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.senteval.classifiers import batched, linear
from analysis.senteval.classifiers.fit_groups import grouped
from analysis.senteval.classifiers.linear import Fit, Fitted, fit_many
from analysis.senteval.protocols import L2, PROTOCOLS, Classifier
from tests.analysis.senteval.plain import Plain, plain_fit

ADAM = replace(PROTOCOLS["default"].classifier, max_epoch=60)
RMSPROP = PROTOCOLS["prototyping"].classifier
SMALL = Classifier(batch=7, epoch_size=2, max_epoch=9)  # ends by the number of epochs: 10 of them


def task(classes: int, n: int = 210, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(classes)
    features = random.normal(size=(n, width)).astype(np.float32)
    noise = random.normal(size=(n, classes))
    return features, (features @ random.normal(size=(width, classes)) + 2 * noise).argmax(1)


@cache
def uneven_fits() -> tuple[Fit, ...]:
    """Folds of different sizes, with different numbers of batches and of L2 values, and one without dev."""
    order = np.random.default_rng(1).permutation(210)
    folds = [(order[:129], order[129:]), (order[5:133], order[:5]), (order[:110], order[110:150])]
    return (
        *(Fit(*folds[0], l2) for l2 in L2),
        *(Fit(*folds[1], l2) for l2 in L2[1:3]),
        Fit(*folds[2], 1e-3),
        Fit(folds[0][0], None, 1e-4),
    )


@cache
def plain_fits(classes: int, classifier: Classifier) -> list[Plain]:
    return [plain_fit(*task(classes), fit.train, fit.dev, fit.l2, classes, classifier) for fit in uneven_fits()]


def fit_batched(
    features: np.ndarray, labels: np.ndarray, fits: Sequence[Fit], classes: int, classifier: Classifier
) -> list[Fitted]:
    """What ``fit_many`` does for a GPU, here on the CPU."""
    found: dict[int, Fitted] = {}

    def finish(position: int, rows: np.ndarray, accuracy: float) -> None:
        found[position] = Fitted(rows[:, :-1], rows[:, -1], accuracy)

    start, decay = linear._initial(features.shape[1], classes), [fit.l2 for fit in fits]
    batched.train(grouped(fits), features, labels, start, decay, classes, classifier, "cpu", finish)
    return [found[position] for position in range(len(fits))]


@pytest.mark.parametrize("train", [fit_many, fit_batched])
@pytest.mark.parametrize("classifier", [ADAM, RMSPROP, SMALL])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_fit_is_the_plain_programs(
    train: Callable[..., list[Fitted]], classifier: Classifier, classes: int
) -> None:
    features, labels = task(classes)
    fits = uneven_fits()
    found = train(features, labels, fits, classes, classifier)
    for fitted, plain in zip(found, plain_fits(classes, classifier), strict=True):
        assert fitted.dev_accuracy == plain.dev_accuracy
        np.testing.assert_allclose(fitted.weight, plain.weight, atol=1e-4)
        np.testing.assert_allclose(fitted.bias, plain.bias, atol=1e-4)
        np.testing.assert_allclose(fitted.logits(features), plain.logits(features), atol=1e-3)


@pytest.mark.parametrize("classes", [2, 5])
def test_a_fit_is_the_same_alone_and_beside_others_and_with_any_threads(classes: int) -> None:
    features, labels = task(classes)
    fits, threads = uneven_fits(), torch.get_num_threads()
    together = fit_many(features, labels, fits, classes, ADAM)
    alone = [fit_many(features, labels, [fit], classes, ADAM)[0] for fit in fits]
    try:
        torch.set_num_threads(7)
        spread = fit_many(features, labels, fits, classes, ADAM)
    finally:
        torch.set_num_threads(threads)
    for one, two, three in zip(together, alone, spread, strict=True):
        assert one.dev_accuracy == two.dev_accuracy == three.dev_accuracy
        for a, b, c in zip(one[:2], two[:2], three[:2], strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_patience_counts_all_failures() -> None:
    """With a dev row that is always right, the first look is the best and 1 + (patience + 1) looks are made."""
    features = np.concatenate([np.full((20, 3), -1.0), np.full((20, 3), 1.0)]).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    fit = Fit(np.arange(38), np.array([38, 39]), 0.0)
    classifier = Classifier(epoch_size=50)
    shares: list[float] = []
    [fitted] = fit_many(features, labels, [fit], 2, classifier, progress=shares.append)
    rows = fit.train, fit.dev, fit.l2
    stopped = plain_fit(features, labels, *rows, 2, classifier)
    assert stopped.epochs == 50 * 5  # patience 5 would allow 7 looks, 200 epochs allow 5
    assert plain_fit(features, labels, *rows, 2, replace(classifier, patience=1)).epochs == 50 * 3
    [patient] = fit_many(features, labels, [fit], 2, replace(classifier, patience=1))
    np.testing.assert_array_equal(fitted.weight, patient.weight)  # the first best is kept
    assert fitted.dev_accuracy == 1
    assert shares == [1]


def test_progress_reaches_one_and_never_falls() -> None:
    features, labels = task(3)
    shares: list[float] = []
    fit_many(features, labels, uneven_fits(), 3, SMALL, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) == len(uneven_fits())


def test_features_may_be_mapped_read_only_or_of_another_type(tmp_path: Path) -> None:
    features, labels = task(2)
    np.save(tmp_path / "x.npy", features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False)
    [fit, *_] = uneven_fits()
    [expected] = fit_many(features, labels, [fit], 2, SMALL)
    for other in (mapped, features.astype(np.float64), np.asfortranarray(features)):
        [found] = fit_many(other, labels.astype(np.int32), [fit], 2, SMALL)
        np.testing.assert_array_equal(found.weight, expected.weight)
    assert features.flags.writeable


def test_no_global_seed_is_touched() -> None:
    features, labels = task(2)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    fit_many(features, labels, uneven_fits()[:1], 2, SMALL)
    after = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert after == (np.random.rand(), torch.rand(1).item())  # noqa: NPY002


def test_groups_that_do_not_fit_at_once_are_trained_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = task(3)
    expected = fit_batched(features, labels, uneven_fits(), 3, SMALL)
    monkeypatch.setattr(batched, "GATHERED", 2 * SMALL.batch * 24 * 4)  # two groups at a time, dev in parts
    for one, two in zip(expected, fit_batched(features, labels, uneven_fits(), 3, SMALL), strict=True):
        assert one.dev_accuracy == two.dev_accuracy
        np.testing.assert_allclose(one.weight, two.weight, atol=1e-6)
