"""Ensembles: weights, plain sums of predictions, one solved by hand, members that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.bootstrap import read_predictions
from analysis.ensemble import combine, ensemble, weights
from analysis.senteval.records import Record, read_results, write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import record, results

TASKS = ("CR", "TREC", "MRPC", "SICKRelatedness", "STS12", "ImageCaptionRetrieval")


def load(folder: Path, task: str) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions" / f"{task}.npz") as arrays:
        return dict(arrays)


def write(
    folder: Path, tasks: dict[str, Record], seed: int = 0, protocol: str = "default", **predicted: Any
) -> Path:
    """Writes results with predictions for 40 examples, random ones where none are passed."""
    (folder / "predictions").mkdir(parents=True)
    rng, gold = np.random.default_rng(seed), np.arange(40) % 2
    model = {"name": folder.name}
    write_results(folder / "senteval.json", results(model=model, tasks=tasks, protocol=protocol))
    for task, each in tasks.items():
        arrays = {"gold": gold, "predicted": rng.dirichlet([1, 1], 40).astype(np.float32)}
        if each.kind in ("similarity", "relatedness"):
            arrays["predicted"] = gold + rng.normal(size=40)
        if each.kind == "nested":
            arrays["fold"] = np.arange(40) // 20
        arrays["predicted"] = predicted.get(task, arrays["predicted"])
        if each.kind != "retrieval":
            np.savez(folder / "predictions" / f"{task}.npz", **arrays)  # type: ignore[arg-type]
    return folder


def member(folder: Path, dev: float = 60.0, seed: int = 0) -> Path:
    return write(folder, {task: record(task, dev=dev) for task in TASKS}, seed)


@given(st.lists(st.floats(-100, 100) | st.none(), min_size=1, max_size=8))
def test_weights_are_nonnegative_and_sum_to_one(performances: list[float | None]) -> None:
    shares = weights(performances)
    assert sum(shares) == pytest.approx(1) and min(shares) >= 0
    positive = [max(value or 0.0, 0.0) for value in performances]
    assert np.allclose(np.array(shares) * sum(positive), positive) or not any(positive)
    assert weights([None, 0.0, -10.0]) == [1 / 3] * 3 and weights([90.0, 30.0]) == [0.75, 0.25]


def test_an_ensemble_equals_plain_sums(tmp_path: Path) -> None:
    members = member(tmp_path / "a", 60.0, 1), member(tmp_path / "b", 30.0, 2)
    combined = ensemble(members)
    assert {*combined.tasks} == {"CR", "TREC", "MRPC", "SICKRelatedness"}  # with a dev set and predictions
    assert combined.model == {"name": "ensemble of 2", "members": [*map(str, members)]}
    for task, result in combined.tasks.items():
        assert result.dev is None and result.weights == pytest.approx([2 / 3, 1 / 3])
        first, second = (load(folder, task) for folder in members)
        shares = result.weights or []
        predicted = shares[0] * first["predicted"] + shares[1] * second["predicted"]
        gold = first["gold"]
        right = predicted.argmax(-1) == gold
        if task == "CR":
            folds = [round(100 * right[20 * fold :][:20].mean(), 2) for fold in (0, 1)]
            assert result.test == np.mean(folds).round(2)
        elif task == "SICKRelatedness":
            assert result.pearson == pytest.approx(100 * stats.pearsonr(predicted, gold)[0])
            assert result.mse == pytest.approx(((predicted - gold) ** 2).mean())
        else:
            assert result.test == round(100 * right.mean(), 2)


def test_an_ensemble_solved_by_hand(tmp_path: Path) -> None:
    """With weights 3/4 and 1/4, the first example has probabilities 0.475 and 0.525: class 1 is predicted."""
    rest = np.eye(2)[np.arange(2, 40) % 2].tolist()
    rows = [[0.4, 0.6], [0.1, 0.9]], [[0.9, 0.1], [0.6, 0.4]]
    folders = [
        write(tmp_path / name, {"SST2": record("SST2", dev=dev, files="x")}, SST2=np.array(first + rest))
        for name, dev, first in zip("ab", (90.0, 30.0), rows, strict=True)
    ]
    for order in (folders, folders[::-1]):
        members = [*map(read_results, order)]
        predictions = read_predictions(members, "SST2")
        assert predictions
        combined, predicted = combine("SST2", members, predictions)
        assert predicted[0] == pytest.approx([0.525, 0.475]) and combined.test == 100


def test_members_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    first = member(tmp_path / "first")
    labels, classes = np.arange(40) % 2, np.full((40, 3), 1 / 3)
    others = [
        write(tmp_path / "fewer", {"STS12": record("STS12")}),
        write(tmp_path / "protocol", {"CR": record("CR")}, protocol="gensen"),
        write(tmp_path / "labels", {"CR": record("CR")}, CR=labels),
        write(tmp_path / "classes", {"CR": record("CR")}, CR=classes),
    ]
    for other in others:
        with pytest.raises(UserError):
            ensemble([first, other])
    with pytest.raises(UserError):
        ensemble([first], ["ImageCaptionRetrieval"])
