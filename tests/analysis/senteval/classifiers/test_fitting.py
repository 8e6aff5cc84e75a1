"""Many fits at once, compiled and in torch, against a plain program that trains one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.senteval.classifiers import fitting, networks
from analysis.senteval.classifiers.fitting import fit_many, training_device
from analysis.senteval.classifiers.training import Fit, Fitted
from analysis.senteval.protocols import L2, PROTOCOLS, Classifier
from tests.analysis.senteval.plain_network import PlainNetwork, plain_fit

ADAM = replace(PROTOCOLS["default"].classifier, max_epoch=60)
RMSPROP = PROTOCOLS["prototyping"].classifier
SMALL = Classifier(batch=7, epoch_size=2, max_epoch=9)  # stops by max_epoch, after 10 epochs


def labelled_features(classes: int, n: int = 210, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(classes)
    features = random.normal(size=(n, width)).astype(np.float32)
    noise = random.normal(size=(n, classes))
    return features, (features @ random.normal(size=(width, classes)) + 2 * noise).argmax(1)


@cache
def uneven_fits() -> tuple[Fit, ...]:
    """Fits on folds of different sizes, with different numbers of batches and L2 values, and one without dev."""
    order = np.random.default_rng(1).permutation(210)
    folds = [(order[:129], order[129:]), (order[5:133], order[:5]), (order[:110], order[110:150])]
    return (
        *(Fit(*folds[0], l2) for l2 in L2),
        *(Fit(*folds[1], l2) for l2 in L2[1:3]),
        Fit(*folds[2], 1e-3),
        Fit(folds[0][0], None, 1e-4),
    )


@cache
def plain_fits(classes: int, classifier: Classifier) -> list[PlainNetwork]:
    return [
        plain_fit(*labelled_features(classes), fit.train, fit.dev, fit.l2, classes, classifier)
        for fit in uneven_fits()
    ]


def fit_together(*arguments: Any) -> list[Fitted]:
    """Fits all at once on the CPU, as ``fit_many`` does on a GPU."""
    return networks.fit_many(*arguments, device=torch.device("cpu"), together=True)


@pytest.mark.parametrize("train", [fit_many, fit_together])
@pytest.mark.parametrize("classifier", [ADAM, RMSPROP, SMALL], ids=["Adam", "RMSprop", "few epochs"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_fit_equals_the_plain_programs(
    train: Callable[..., list[Fitted]], classifier: Classifier, classes: int
) -> None:
    features, labels = labelled_features(classes)
    fits = uneven_fits()
    found = train(features, labels, fits, classes, classifier)
    for fitted, plain in zip(found, plain_fits(classes, classifier), strict=True):
        assert fitted.dev_accuracy == plain.dev_accuracy
        [layer] = fitted.layers
        for found_values, expected in zip(layer, plain.model.parameters(), strict=True):
            np.testing.assert_allclose(found_values, expected.detach(), atol=1e-4)
        np.testing.assert_allclose(fitted.logits(features), plain.logits(features), atol=1e-3)


def test_the_default_seed_is_the_toolkits() -> None:
    assert Classifier().seed == 1111


@pytest.mark.parametrize("classes", [2, 5])
def test_a_fit_is_the_same_alone_and_beside_others_and_with_any_threads(classes: int) -> None:
    features, labels = labelled_features(classes)
    fits, threads = uneven_fits(), torch.get_num_threads()
    together = fit_many(features, labels, fits, classes, ADAM)
    alone = [fit_many(features, labels, [fit], classes, ADAM)[0] for fit in fits]
    try:
        torch.set_num_threads(7)
        with_seven_threads = fit_many(features, labels, fits, classes, ADAM)
    finally:
        torch.set_num_threads(threads)
    for shared, single, threaded in zip(together, alone, with_seven_threads, strict=True):
        assert shared.dev_accuracy == single.dev_accuracy == threaded.dev_accuracy
        for a, b, c in zip(shared.layers[0], single.layers[0], threaded.layers[0], strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_patience_counts_all_failed_evaluations() -> None:
    """Dev accuracy is 1 from the start: the first evaluation is the best, and patience + 1 further ones fail."""
    features = np.concatenate([np.full((20, 3), -1.0), np.full((20, 3), 1.0)]).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    fit = Fit(np.arange(38), np.array([38, 39]), 0.0)
    classifier = Classifier(epoch_size=50)
    shares: list[float] = []
    [fitted] = fit_many(features, labels, [fit], 2, classifier, progress=shares.append)
    rows = fit.train, fit.dev, fit.l2
    stopped = plain_fit(features, labels, *rows, 2, classifier)
    assert stopped.epochs == 50 * 5  # patience 5 would allow 7 evaluations, 200 epochs allow 5
    assert plain_fit(features, labels, *rows, 2, replace(classifier, patience=1)).epochs == 50 * 3
    [patient] = fit_many(features, labels, [fit], 2, replace(classifier, patience=1))
    np.testing.assert_array_equal(fitted.layers[0][0], patient.layers[0][0])  # the first of equal fits is kept
    assert fitted.dev_accuracy == 1
    assert shares == [1]


def test_progress_reaches_one_and_never_falls() -> None:
    features, labels = labelled_features(3)
    shares: list[float] = []
    fit_many(features, labels, uneven_fits(), 3, SMALL, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) == len(uneven_fits())


def test_features_may_be_mapped_read_only_or_of_another_type(tmp_path: Path) -> None:
    features, labels = labelled_features(2)
    np.save(tmp_path / "x.npy", features)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False)
    [fit, *_] = uneven_fits()
    [expected] = fit_many(features, labels, [fit], 2, SMALL)
    for other in (mapped, features.astype(np.float64), np.asfortranarray(features)):
        [found] = fit_many(other, labels.astype(np.int32), [fit], 2, SMALL)
        np.testing.assert_array_equal(found.layers[0][0], expected.layers[0][0])
    assert features.flags.writeable


def test_global_random_states_are_unchanged() -> None:
    features, labels = labelled_features(2)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    fit_many(features, labels, uneven_fits()[:1], 2, SMALL)
    after = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    assert after == (np.random.rand(), torch.rand(1).item())  # noqa: NPY002


def test_small_fits_stay_on_the_cpu_beside_a_gpu() -> None:
    """Sizes with roberta-base. Large: folds of CR and TREC, WordContent's classes; small: SST2, Length, SICK-E."""
    default, hidden = Classifier(), Classifier(hidden=50)
    large = [(400, 768, 2), (40, 768, 6), (4, 768, 1000)]
    assert {str(training_device("cuda", *sizes, default)) for sizes in large} == {"cuda"}
    small = [(4, 768, 2), (4, 768, 6), (4, 2 * 768, 3)]
    assert {str(training_device("cuda", *sizes, default)) for sizes in small} == {"cpu"}
    assert str(training_device("cuda", 4, 768, 2, hidden)) == "cuda"
    assert str(training_device("cuda", 1, 20, 2, Classifier(hidden=8))) == "cpu"
    assert {str(training_device("cpu", *sizes, default)) for sizes in large} == {"cpu"}


def test_a_device_gets_large_fits_and_the_kernels_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = labelled_features(3)
    fits, devices = uneven_fits(), []
    expected = fit_many(features, labels, fits, 3, SMALL)

    def recorded(*arguments: Any, device: torch.device, together: bool, progress: Any) -> list[Fitted]:
        devices.append((device.type, together))
        return original(*arguments, device=torch.device("cpu"), together=together)

    original = networks.fit_many
    monkeypatch.setattr(networks, "fit_many", recorded)
    for one, two in zip(expected, fit_many(features, labels, fits, 3, SMALL, device="meta"), strict=True):
        np.testing.assert_array_equal(one.layers[0][0], two.layers[0][0])
    assert devices == []
    monkeypatch.setattr(fitting, "SMALL", len(fits) * 3 * 20)
    fit_many(features, labels, fits, 3, SMALL, device="meta")
    fit_many(features, labels, fits, 3, replace(SMALL, hidden=2), device="cpu")
    assert devices == [("meta", True), ("cpu", False)]
