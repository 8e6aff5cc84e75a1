"""senteval.json: round trip, values computed on writing, error messages; and the records of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.senteval.records import PUBLISHED, STS, fault, headlines, incomparable, measure
from analysis.senteval.results import Results, read_results, write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import SENTEVAL, record, records, results
from tests.real_data import suite_data


def written_json(folder: Path, value: Results) -> dict[str, Any]:
    write_results(folder / "senteval.json", value)
    return json.loads((folder / "senteval.json").read_text(encoding="utf-8"))


def test_results_are_read_back_in_order(tmp_path: Path) -> None:
    tasks = {task: record(task) for task in reversed(SENTEVAL)}
    value = results(tasks=tasks, missing={"SNLI": "SNLI/s1.train"}, data={"folder": "x"})
    assert list(written_json(tmp_path, value)["tasks"]) == list(SENTEVAL)
    for path in (tmp_path, tmp_path / "senteval.json"):
        found = read_results(path)
        assert (found.protocol, found.model, found.missing, found.data) == (
            "default",
            {"name": "ours"},
            {"SNLI": "SNLI/s1.train"},
            {"folder": "x"},
        )
        assert found.tasks == {
            task: fields | {"comparable": True, "reason": None} for task, fields in tasks.items()
        }
    assert [path.name for path in tmp_path.iterdir()] == ["senteval.json"]


def test_the_original_is_not_touched(tmp_path: Path) -> None:
    value = results(tasks={"CR": record("CR")})
    written_json(tmp_path, value)
    assert value.tasks == {"CR": record("CR")}


def test_averages_are_written_under_labels(tmp_path: Path) -> None:
    found = written_json(tmp_path, results(tasks=records(("CR", "MR", "STS12"))))
    assert found["averages"]["declutr_downstream (3 of 17)"] == pytest.approx(70)
    assert "declutr_downstream" not in found["averages"]
    over = found["averages_over"]["declutr_downstream (3 of 17)"]
    assert over["tasks"] == ["CR", "MR", "STS12"] and len(over["missing"]) == 14
    assert written_json(tmp_path, results())["averages"]["declutr_downstream"] == pytest.approx(70 + 4 / 17)


def test_incomparable_tasks_are_named(tmp_path: Path) -> None:
    tasks = {"SNLI": record("SNLI", n_train=3000), "Length": record("Length", n_train=2400)}
    found = written_json(tmp_path, results(tasks=tasks))
    assert found["tasks"]["SNLI"]["comparable"] is False
    assert found["tasks"]["SNLI"]["reason"] == "3,000 training examples, SentEval has 549,367"
    assert "probing (1 of 10, not comparable)" in found["averages"]


@pytest.mark.parametrize(
    ("task", "n_train", "n_test", "reason"),
    [
        ("CR", 3775, 3775, None),
        ("CR", 3774, 3775, "3,774 training examples, SentEval has 3,775"),
        ("STS16", 0, 1379, "1,379 test examples, SentEval has 1,186"),
        ("Tense", 100_004, 9_996, None),
        ("Tense", 1_382, 230, "1,382 training examples, SentEval has 100,000"),
    ],
)
def test_other_counts_are_not_comparable(task: str, n_train: int, n_test: int, reason: str | None) -> None:
    assert incomparable(task, record(task, n_train=n_train, n_test=n_test)) == reason


def test_plain_cosine_is_not_comparable() -> None:
    assert incomparable("STSBenchmark", record("STSBenchmark")) is None
    assert incomparable("STSBenchmark", record("STSBenchmark", mse=None)) == "plain cosine, nothing trained"


def test_published_counts_equal_those_of_the_data() -> None:
    text = suite_data("senteval/downstream/README.md").read_text(encoding="utf-8")
    for count in (3775, 10606, 67349, 1821, 8544, 2210, 5452, 4076, 1725, 4500, 4927, 5749, 1379, 9824, 549367):
        assert str(count) in text and any(count in pair for pair in PUBLISHED.values())
    for task in STS:
        assert f"{PUBLISHED[task][1]} scored" in text


def test_numpy_values_and_nan_are_written_as_valid_json(tmp_path: Path) -> None:
    sts12 = record("STS12", spearman={"mean": float("nan"), "wmean": np.float32(0.5), "all": np.float64(1)})
    sts12["n_test"] = np.int64(3108)  # type: ignore[typeddict-item]
    sts12["l2"] = np.array([1e-5, 1e-4])  # type: ignore[typeddict-item]
    found = written_json(tmp_path, results(tasks={"STS12": sts12}))["tasks"]["STS12"]
    assert found["spearman"] == {"mean": None, "wmean": 0.5, "all": 1.0}
    assert found["l2"] == [1e-5, 1e-4]
    assert read_results(tmp_path).tasks["STS12"]["n_test"] == 3108


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"kind": "ranking"},
            "CR.kind must be one of nested, kfold, split, snli, relatedness, similarity, retrieval",
            id="unknown kind",
        ),
        pytest.param({"test": "80"}, "CR.test cannot be '80'", id="score as text"),
        pytest.param({"test": True}, "CR.test cannot be True", id="score as bool"),
        pytest.param({"n_test": -1}, "CR.n_test cannot be -1", id="negative count"),
        pytest.param({"seconds": None}, "CR.seconds cannot be None", id="no seconds"),
        pytest.param({"l2": ["a"]}, "CR.l2 cannot be ['a']", id="text in l2"),
        pytest.param({"kind": "similarity"}, "CR.pearson is missing", id="missing correlation"),
        pytest.param({"l2": [1e-5, 1e-4]}, None, id="list of l2 is valid"),
        pytest.param({"dev": None}, None, id="missing dev score is valid"),
    ],
)
def test_faults_of_a_record_are_named(change: dict[str, Any], message: str | None) -> None:
    assert fault("CR", record("CR") | change) == message


def test_faults_depend_on_the_kind_of_task() -> None:
    assert all(fault(task, record(task)) is None for task in SENTEVAL)
    assert (
        fault("MRPC", {key: value for key, value in record("MRPC").items() if key != "f1"}) == "MRPC.f1 is missing"
    )
    broken = record("ImageCaptionRetrieval", recalls={"caption_r1": 1.0})
    assert fault("ImageCaptionRetrieval", broken) == "ImageCaptionRetrieval.recalls cannot be {'caption_r1': 1.0}"
    assert fault("SST", record("CR")) == "SST is no task of SentEval"
    assert fault("CR", 80.0) == "CR is not an object"


def test_a_faulty_record_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_results(tmp_path / "senteval.json", results(tasks={"CR": record("CR", test="x")}))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b'{"tasks": {"CR"',
        b"[]",
        b'{"start": {}}',
        b'{"tasks": [], "model": {}, "protocol": "x"}',
        b'{"tasks": {"CR": {"acc": 80}}, "model": {}, "protocol": "x"}',
    ],
)
def test_broken_and_foreign_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "senteval.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_results(tmp_path)
    assert error.value.key == str(path) and "\n" not in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        read_results(tmp_path)


def test_measures_of_a_record_by_hand() -> None:
    assert measure(record("MRPC", 70), "accuracy+f1") == 74
    assert measure(record("STS12", 70), "spearman.all") == 72
    assert measure(record("STS12"), "dev") is None
    assert measure(record("CR"), "f1") is None
    assert measure(record("CR"), "test.mean") is None
    assert measure(record("MRPC") | {"f1": None}, "accuracy+f1") is None


def test_headlines_are_the_test_score() -> None:
    for task in SENTEVAL:
        example = record(task)
        assert measure(example, headlines(task, example)[0]) == example["test"]
    assert headlines("STS12", record("STS12", protocol="simcse")) == ("spearman.all",)
    assert headlines("MRPC", record("MRPC")) == ("accuracy", "f1")
