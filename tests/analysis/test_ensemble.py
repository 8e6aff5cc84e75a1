"""Ensembles: weights, plain sums of predictions, one solved by hand, members that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.ensemble import ensemble, report_ensemble, weights
from analysis.senteval.records import Record, read_results, write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import record, results

SUBSETS = {name: {"n": 20, "pearson": 1.0, "spearman": 1.0} for name in "ab"}
TASKS = ("CR", "TREC", "MRPC", "SICKRelatedness", "STS12")


def load(folder: Path, task: str) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions" / f"{task}.npz") as arrays:
        return dict(arrays)


def write(
    folder: Path, tasks: dict[str, Record], seed: int = 0, protocol: str = "default", **predicted: Any
) -> Path:
    """Writes results with predictions for 40 examples, random ones where none are passed."""
    (folder / "predictions").mkdir(parents=True)
    rng, gold = np.random.default_rng(seed), np.arange(40) % 2
    model = {"name": folder.name, "fingerprint": folder.name}
    write_results(folder / "senteval.json", results(model=model, tasks=tasks, protocol=protocol))
    for task, each in tasks.items():
        arrays = {"gold": gold, "predicted": rng.dirichlet([1, 1], 40).astype(np.float32)}
        if each.kind in ("similarity", "relatedness"):
            arrays["predicted"] = gold + rng.normal(size=40)
        if each.kind in ("similarity", "nested"):
            arrays["subset" if each.kind == "similarity" else "fold"] = np.arange(40) // 20
        if task in predicted:
            arrays["predicted"] = predicted[task]
        np.savez(folder / "predictions" / f"{task}.npz", **arrays)  # type: ignore[arg-type]
    return folder


def member(folder: Path, dev: float = 60.0, seed: int = 0, **fields: Any) -> Path:
    tasks = {task: record(task, dev=dev, files="x", **fields) for task in TASKS if task != "STS12"}
    tasks["STS12"] = record("STS12", files="x", subsets=SUBSETS)
    return write(folder, tasks | {"ImageCaptionRetrieval": record("ImageCaptionRetrieval", files="x")}, seed)


@given(st.lists(st.floats(-100, 100) | st.none(), min_size=1, max_size=8))
def test_weights_are_nonnegative_and_sum_to_one(performances: list[float | None]) -> None:
    shares = weights(performances)
    assert sum(shares) == pytest.approx(1) and min(shares) >= 0
    positive = [max(value or 0.0, 0.0) for value in performances]
    assert np.allclose(np.array(shares) * sum(positive), positive) or not any(positive)
    assert weights([None, 0.0, -10.0]) == [1 / 3] * 3 and weights([90.0, 30.0]) == [0.75, 0.25]


def test_an_ensemble_equals_plain_sums(tmp_path: Path) -> None:
    members = member(tmp_path / "a", 60.0, 1), member(tmp_path / "b", 30.0, 2)
    (tmp_path / "out").mkdir()
    combined = ensemble(members, tmp_path / "out")
    assert [*combined.tasks] == [
        task for task in read_results(members[0]).tasks if task != "ImageCaptionRetrieval"
    ]
    assert combined.model["left_out"] == ["ImageCaptionRetrieval"] and combined.model["name"] == "ensemble of 2"
    assert read_results(tmp_path / "out").to_dict() == combined.to_dict()
    for task, result in combined.tasks.items():
        assert result.dev is None and result.weights == (
            [0.5, 0.5] if task == "STS12" else pytest.approx([2 / 3, 1 / 3])
        )
        first, second = (load(folder, task) for folder in members)
        shares = result.weights or []
        predicted = shares[0] * first["predicted"] + shares[1] * second["predicted"]
        gold, stored = first["gold"], load(tmp_path / "out", task)
        assert stored.keys() == first.keys() and stored["predicted"] == pytest.approx(predicted)
        right = predicted.argmax(-1) == gold
        if task == "CR":
            assert result.test == np.mean(
                [round(100 * right[20 * fold :][:20].mean(), 2) for fold in (0, 1)]
            ).round(2)
        elif task == "SICKRelatedness":
            assert result.pearson == pytest.approx(100 * stats.pearsonr(predicted, gold)[0])
            assert result.mse == pytest.approx(((predicted - gold) ** 2).mean())
        elif task == "STS12":
            expected = [
                100 * stats.spearmanr(predicted[part], gold[part])[0] for part in np.split(np.arange(40), 2)
            ]
            assert result.test == pytest.approx(np.mean(expected))
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
        out = tmp_path / f"out{order[0].name}"
        report_ensemble(results=[*map(str, order)], out=str(out))
        assert load(out, "SST2")["predicted"][0] == pytest.approx([0.525, 0.475])
        assert read_results(out).tasks["SST2"].test == 100


def test_members_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    first, out = member(tmp_path / "first"), tmp_path / "out"
    out.mkdir()
    gold = np.arange(40) % 2
    scores = {"CR": gold, "TREC": np.log(np.full((40, 2), 0.5)), "MRPC": np.full((40, 3), 1 / 3)}
    tasks = {task: record(task, files="x") for task in scores}
    others = [
        write(tmp_path / "files", {task: record(task, files="other") for task in TASKS}),
        write(tmp_path / "fewer", {"CR": record("CR", files="x")}),
        write(tmp_path / "protocol", tasks, protocol="gensen"),
        write(tmp_path / "dev", tasks | {"CR": record("CR", files="x").model_copy(update={"dev": None})}),
        *(write(tmp_path / task, tasks, **{task: predicted}) for task, predicted in scores.items()),
    ]
    for number, other in enumerate(others):
        names = [*scores] if number > 1 else None
        with pytest.raises(UserError):
            ensemble([first, other], out, names)
        with pytest.raises(UserError):
            ensemble([first], other)  # which holds results of another model
    (first / "predictions" / "CR.npz").unlink()
    for names in (["CR"], ["ImageCaptionRetrieval"]):
        with pytest.raises(UserError):
            ensemble([first], out, names)
    assert not any(out.iterdir())
