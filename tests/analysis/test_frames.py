"""Wide and long frames of scores: averages over common tasks, and what may stand beside printed scores."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.frames import as_markdown, axes, measure, numeric_scores, tidy
from analysis.senteval.averages import RULES, average


def wide(*scores: dict[str, Any]) -> pd.DataFrame:
    rows = [{"A": str(number), "seed": 1, "run": f"run{number}", **row} for number, row in enumerate(scores)]
    return pd.DataFrame(rows)


def test_numeric_scores_keep_the_numbers_of_nested_mappings() -> None:
    record = {"kind": "split", "test": 80, "l2": [0.1], "pearson": {"all": 70.5, "mean": None}, "comparable": True}
    assert numeric_scores({"STS12": record}) == {
        "STS12.test": 80,
        "STS12.pearson.all": 70.5,
        "STS12.comparable": True,
    }


def test_a_sum_of_metrics_is_their_mean_and_needs_both() -> None:
    scores = measure(wide({"MRPC.accuracy": 70.0, "MRPC.f1": 80.0}, {"MRPC.accuracy": 70.0}), "MRPC.accuracy+f1")
    assert scores.values[0] == 75 and pd.isna(scores.values[1]) and scores.whole and scores.comparable
    assert measure(wide({}), "CR.test").values.isna().all()


def test_a_quick_score_is_no_printed_one() -> None:
    scores = measure(wide({"recall@1": 12.0}), "recall@1")
    assert [*scores.values] == [12] and not scores.comparable and scores.whole


def test_an_average_is_over_the_tasks_of_all_evaluated_rows() -> None:
    tasks = {"CR": 80.0, "MR": 70.0, "TREC": 90.0}
    full = {f"{task}.test": value for task, value in tasks.items()}
    frame = wide(full, {**full, "CR.test": 60.0, "TREC.test": None}, {"recall@1": 5.0})
    scores = measure(frame, "declutr_downstream")
    assert scores.values[:2].tolist() == [75, 65] and pd.isna(scores.values[2])
    assert not scores.whole and scores.comparable and "2" in scores.label and "17" in scores.label


def test_an_average_equals_that_of_the_rules() -> None:
    rule = RULES["gensen_delta"]
    row = {f"{task}.{metric}": 80.0 + place for place, (task, metric) in enumerate(rule.groups[0].items())}
    scores = measure(wide(row), "gensen_delta")
    expected = average(rule, lambda task, metric: row[f"{task}.{metric}"])
    assert expected and scores.values[0] == expected.value and scores.whole and scores.label == expected.title


def test_scores_on_other_data_are_not_comparable() -> None:
    frame = wide({"CR.test": 80.0, "CR.comparable": True}, {"CR.test": 70.0, "CR.comparable": False})
    assert not measure(frame, "CR.test").comparable and not measure(frame, "declutr_downstream").comparable
    assert "not comparable" in measure(frame, "CR.test").label


def test_an_average_without_a_common_task_has_no_values() -> None:
    scores = measure(wide({"CR.test": 1.0}, {"MR.test": 1.0}), "declutr_downstream")
    assert scores.values.isna().all() and not scores.whole and not scores.comparable


def test_a_long_frame_has_a_row_a_score() -> None:
    long = tidy(wide({"CR.test": 80.0, "MR.test": 70.0}, {"CR.test": 60.0}), {"CR": "CR.test", "MR": "MR.test"})
    assert [*long.columns] == ["A", "seed", "run", "panel", "score"] and axes(long) == ["A"]
    assert long[["A", "panel", "score"]].values.tolist() == [["0", "CR", 80], ["1", "CR", 60], ["0", "MR", 70]]


@pytest.mark.parametrize("text", ["a|b", "a\x1b[31m"])
def test_markdown_cells_stay_cells(text: str) -> None:
    table = as_markdown(pd.DataFrame({"score": [1.25], "note": [text]}, index=pd.Index(["row"], name="model")))
    lines = table.splitlines()
    assert lines[0] == "| model | score | note |" and len(lines) == 3
    assert lines[2].startswith("| row | 1.2 | a") and "\x1b" not in table and "a|b" not in table
