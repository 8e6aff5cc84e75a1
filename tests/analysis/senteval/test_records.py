"""Records and results: senteval.json, comparability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.senteval.averages import STS
from analysis.senteval.records import PUBLISHED, Results, headlines, incomparable, read_results
from data.files import write_json
from tests.analysis.senteval.example_results import SENTEVAL, record, records, results
from tests.real_data import suite_data


def written_json(folder: Path, value: Results) -> dict[str, Any]:
    write_json(folder / "senteval.json", value.to_dict())
    return json.loads((folder / "senteval.json").read_text(encoding="utf-8"))


def test_results_are_read_back_in_order(tmp_path: Path) -> None:
    tasks = {task: record(task) for task in reversed(SENTEVAL)}
    value = results(tasks=tasks, missing={"SNLI": "SNLI/s1.train"}, data={"folder": "x"})
    content = written_json(tmp_path, value)
    assert [*content["tasks"]] == [*SENTEVAL] and not {"folder", "accuracy"} & {*content, *content["tasks"]["CR"]}
    for path in (tmp_path, tmp_path / "senteval.json"):
        read = read_results(path)
        assert read == value.model_copy(update={"folder": tmp_path})
        assert read.to_dict() == content


def test_numpy_values_and_nan_are_written_as_valid_json(tmp_path: Path) -> None:
    means = {"mean": float("nan"), "wmean": np.float32(0.5), "all": np.float64(1)}
    sts12 = record("STS12", test=float("nan"), spearman=means, n_test=np.int64(3108), l2=[1e-5, 1e-4])
    read = written_json(tmp_path, results(tasks={"STS12": sts12}))["tasks"]["STS12"]
    assert read["spearman"] == {"mean": None, "wmean": 0.5, "all": 1.0} and read["test"] is None
    assert read["l2"] == [1e-5, 1e-4] and read_results(tmp_path).tasks["STS12"].n_test == 3108


@pytest.mark.parametrize(
    ("task", "n_train", "n_test", "comparable"),
    [
        ("CR", 3775, 3775, True),
        ("CR", 3774, 3775, False),
        ("Tense", 1_382, 230, False),
    ],
)
def test_other_counts_are_not_comparable(task: str, n_train: int, n_test: int, comparable: bool) -> None:
    assert (incomparable(task, record(task, n_train=n_train, n_test=n_test)) is None) == comparable
    assert incomparable("STSBenchmark", record("STSBenchmark", mse=None))  # a plain cosine


def test_published_counts_equal_those_of_the_data() -> None:
    text = suite_data("senteval/downstream/README.md").read_text(encoding="utf-8")
    for count in (3775, 10606, 67349, 1821, 8544, 2210, 5452, 4076, 1725, 4500, 4927, 5749, 1379, 9824, 549367):
        assert str(count) in text and any(count in pair for pair in PUBLISHED.values())
    for task in STS:
        assert f"{PUBLISHED[task][1]} scored" in text


def test_headlines_are_the_test_score() -> None:
    assert all(each.score(next(iter(headlines(task, each)))) == each.test for task, each in records().items())
    assert [*headlines("STS12", record("STS12", protocol="simcse"))] == ["spearman.all"]
