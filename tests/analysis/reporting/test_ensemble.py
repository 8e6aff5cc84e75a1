"""Ensembles of stored results: weights by hand, one or two equal members, results that cannot be combined."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.reporting.bootstrap import compare_folders
from analysis.reporting.ensemble import ensemble, report_ensemble, weights
from analysis.reporting.tables import comparison
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.records import Record, fault
from analysis.senteval.results import read_results, write_results
from data.errors import UserError
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.analysis.senteval.example_results import record, results

TASKS = ["CR", "MRPC", "TREC", "SST2", "SNLI", "SICKRelatedness", "STS12", "STS16", "Length"]
SCORES = ("test", "accuracy", "f1", "pearson", "spearman", "mse", "subsets", "kind", "protocol", "files", "n_test")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with results of two models in "a" and "b", and of "a" by plain cosine in "cosine"."""
    root = tmp_path_factory.mktemp("evaluated")
    data = small_data.folder(root / "data")
    for name, seed, protocol in (("a", 1, "prototyping"), ("b", 2, "prototyping"), ("cosine", 1, "simcse")):
        encoder = RandomVectors(dimension=8, seed=seed)
        tasks = [*TASKS, "ImageCaptionRetrieval"] if protocol == "prototyping" else ["STS12", "STSBenchmark"]
        (root / name).mkdir()
        run_tasks(
            lambda _, encoder=encoder: encoder,  # type: ignore[misc]
            {"name": name},
            PROTOCOLS[protocol],
            fingerprint=fingerprint,
            data=data,
            out=root / name,
            tasks=tasks,
        )
    return root


def combine(out: Path, *members: Path, tasks: list[str] | None = None) -> dict[str, Any]:
    """Writes the ensemble to ``out`` and returns its records by task."""
    out.mkdir(exist_ok=True)
    return dict(ensemble(members, out, tasks).tasks)


def read_predictions(folder: Path, task: str) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions" / f"{task}.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def test_weights_solved_by_hand() -> None:
    assert weights([60.0, 20.0]) == [0.75, 0.25]
    assert weights([50.0, 50.0]) == [0.5, 0.5]
    assert weights([None, None, None, None]) == [0.25] * 4  # no dev set
    assert weights([-10.0, 30.0]) == [0.0, 1.0]  # a negative correlation on dev
    assert weights([-10.0, 0.0]) == [0.5, 0.5]


@given(st.lists(st.floats(min_value=-100, max_value=100), min_size=1, max_size=8))
def test_weights_are_nonnegative_and_sum_to_one(performances: list[float]) -> None:
    found = weights(performances)
    assert sum(found) == pytest.approx(1) and min(found) >= 0
    for first, second, first_weight, second_weight in zip(
        performances, performances[1:], found, found[1:], strict=False
    ):
        assert first_weight >= second_weight or first < second


@pytest.mark.parametrize("times", [1, 2])
def test_an_ensemble_of_one_model_or_twice_the_same_equals_it(times: int, evaluated: Path, tmp_path: Path) -> None:
    found, member = combine(tmp_path, *[evaluated / "a"] * times), read_results(evaluated / "a").tasks
    assert {*found} == {*TASKS}
    for task, result in found.items():
        assert {key: result.get(key) for key in SCORES} == {key: member[task].get(key) for key in SCORES}
        assert result["weights"] == [1 / times] * times and result["dev"] is None and fault(task, result) is None
        for name, array in read_predictions(evaluated / "a", task).items():
            assert np.array_equal(read_predictions(tmp_path, task)[name], array)
    assert all(difference[:3] == (0, 0, 0) for difference in compare_folders(evaluated / "a", tmp_path).values())
    assert read_results(tmp_path).model["left_out"] == ["ImageCaptionRetrieval"]


def test_an_ensemble_of_plain_cosines_is_scored_by_plain_cosine(evaluated: Path, tmp_path: Path) -> None:
    found, member = combine(tmp_path, evaluated / "cosine"), read_results(evaluated / "cosine").tasks
    assert found["STS12"]["test"] == member["STS12"]["test"] == found["STS12"]["spearman"]["all"]
    assert found["STSBenchmark"]["test"] == member["STSBenchmark"]["test"]
    assert found["STSBenchmark"]["mse"] is None and not found["STSBenchmark"]["comparable"]


def test_an_ensemble_of_two_models_equals_plain_sums(evaluated: Path, tmp_path: Path) -> None:
    found = combine(tmp_path, evaluated / "a", evaluated / "b")
    records = [read_results(evaluated / name).tasks for name in "ab"]
    for task, result in found.items():
        devs = [member[task]["dev"] for member in records]
        expected_weights = (
            [0.5, 0.5] if task.startswith("STS1") else [(dev or 0) / sum(d or 0 for d in devs) for dev in devs]
        )
        if min(dev or 0 for dev in devs) >= 0:
            assert result["weights"] == pytest.approx(expected_weights)
        first, second = (read_predictions(evaluated / name, task) for name in "ab")
        predicted = result["weights"][0] * first["predicted"] + result["weights"][1] * second["predicted"]
        gold = first["gold"]
        if result["kind"] in ("kfold", "split", "snli"):
            assert result["test"] == round(100 * (predicted.argmax(axis=1) == gold).mean(), 2)
        elif task == "SICKRelatedness":
            assert result["pearson"] == pytest.approx(100 * stats.pearsonr(predicted, gold)[0])
            assert result["mse"] == pytest.approx(((predicted - gold) ** 2).mean())
        elif task == "STS12":
            by_subset = [first["subset"] == number for number in range(5)]
            correlations = [100 * stats.spearmanr(predicted[rows], gold[rows])[0] for rows in by_subset]
            assert result["test"] == pytest.approx(np.mean(correlations))
            assert [subset["spearman"] for subset in result["subsets"].values()] == pytest.approx(correlations)
    correct = (
        read_predictions(tmp_path, "CR")["predicted"].argmax(axis=1) == read_predictions(tmp_path, "CR")["gold"]
    ).astype(float)
    folds = read_predictions(tmp_path, "CR")["fold"]
    assert found["CR"]["test"] == pytest.approx(
        np.mean([100 * correct[folds == k].mean() for k in range(5)]), abs=0.01
    )
    assert found["MRPC"]["accuracy"] == found["MRPC"]["test"]
    ensemble_results = read_results(tmp_path)
    assert ensemble_results.model["name"] == "ensemble of 2" and ensemble_results.protocol == "prototyping"
    assert [member["name"] for member in ensemble_results.model["members"]] == ["a", "b"]
    grid = comparison([read_results(evaluated / "a"), ensemble_results])
    assert ("CR", "test") in grid.ours[1].cells and grid.ours[1].name == "ensemble of 2"


def write_result(
    folder: Path, task: str, result: Record, predicted: np.ndarray, gold: np.ndarray, **model: Any
) -> Path:
    """Writes an invented result of one task."""
    (folder / "predictions").mkdir(parents=True)
    stored = results(folder.name, {task: result})
    stored.model |= {"fingerprint": folder.name} | model
    write_results(folder / "senteval.json", stored)
    np.savez(folder / "predictions" / f"{task}.npz", gold=gold, predicted=predicted, allow_pickle=False)
    return folder


def test_an_ensemble_solved_by_hand(tmp_path: Path) -> None:
    """With weights 3/4 and 1/4, the first example has probabilities 0.475 and 0.525: class 1 is predicted."""
    gold = np.array([1, 0])
    predicted = np.array([[0.6, 0.4], [0.9, 0.1]], np.float32), np.array([[0.1, 0.9], [0.6, 0.4]], np.float32)
    members = [
        write_result(tmp_path / str(number), "SST2", record("SST2", dev=dev, files="x"), probabilities, gold)
        for number, (dev, probabilities) in enumerate(zip((90.0, 30.0), predicted, strict=True))
    ]
    found = combine(tmp_path / "out", *members)
    assert found["SST2"]["weights"] == [0.75, 0.25] and found["SST2"]["test"] == 100
    assert read_predictions(tmp_path / "out", "SST2")["predicted"] == pytest.approx(
        np.array([[0.475, 0.525], [0.825, 0.175]]), abs=1e-6
    )
    backwards = combine(tmp_path / "back", *members[::-1])
    assert backwards["SST2"]["weights"] == [0.25, 0.75] and backwards["SST2"]["test"] == 100


def altered_copy(evaluated: Path, tmp_path: Path, change: Any) -> Path:
    """Returns a copy of "b" whose senteval.json is changed by ``change``."""
    copy = tmp_path / "copy"
    shutil.copytree(evaluated / "b", copy)
    value = json.loads((copy / "senteval.json").read_text())
    change(value)
    (copy / "senteval.json").write_text(json.dumps(value))
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["tasks"]["CR"].update(files="other"),
        lambda value: value["tasks"]["CR"].pop("files"),
        lambda value: value["tasks"].pop("MRPC"),
        lambda value: value.update(protocol="gensen"),
        lambda value: value["tasks"]["TREC"].update(dev=None),
    ],
)
def test_incompatible_results_are_refused(change: Any, evaluated: Path, tmp_path: Path) -> None:
    copy = altered_copy(evaluated, tmp_path, change)
    with pytest.raises(UserError, match=str(copy)):
        combine(tmp_path / "out", evaluated / "a", copy)
    assert not any((tmp_path / "out").iterdir())


def test_mismatched_predictions_are_refused(evaluated: Path, tmp_path: Path) -> None:
    copy = altered_copy(evaluated, tmp_path, lambda value: None)
    path = copy / "predictions" / "TREC.npz"
    arrays = read_predictions(copy, "TREC")
    out, gold = tmp_path / "out", arrays["gold"]
    for wrong in (
        {"gold": gold, "predicted": arrays["predicted"].argmax(axis=1)},
        {"gold": gold, "predicted": np.log(arrays["predicted"])},
        {"gold": gold, "predicted": np.full((len(gold), 2), 0.5)},  # a model of fewer classes
        {"gold": gold[::-1], "predicted": arrays["predicted"]},
    ):
        np.savez(path, allow_pickle=False, **wrong)
        with pytest.raises(UserError, match="TREC"):
            combine(out, evaluated / "a", copy)
    assert [*combine(out, evaluated / "a", copy, tasks=["STS16", "CR"])] == ["CR", "STS16"]
    path.unlink()
    with pytest.raises(UserError, match="TREC"):
        combine(out, evaluated / "a", copy)


def test_other_results_and_ensembles_are_no_members(evaluated: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError):  # "b" holds results of another model
        combine(evaluated / "b", evaluated / "a")
    with pytest.raises(UserError):
        combine(tmp_path, evaluated / "a", evaluated / "b", tasks=["ImageCaptionRetrieval"])
    once = combine(tmp_path, evaluated / "a", evaluated / "b")
    twice = combine(tmp_path, evaluated / "a" / "senteval.json", evaluated / "b")
    assert {name: dict(result, seconds=0) for name, result in twice.items()} == {
        name: dict(result, seconds=0) for name, result in once.items()
    }
    with pytest.raises(UserError):
        combine(tmp_path / "more", evaluated / "a", tmp_path, tasks=["CR"])


def test_the_command_writes_and_prints_an_ensemble(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_ensemble(
        results=[str(evaluated / "a"), str(evaluated / "b")], out=str(tmp_path / "new"), tasks=["STS12"]
    )
    assert "ensemble of 2" in capsys.readouterr().out
    assert [*read_results(tmp_path / "new").tasks] == ["STS12"]
