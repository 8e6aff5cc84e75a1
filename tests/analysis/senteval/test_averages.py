"""Averages of tasks: printed averages recomputed from printed cells, and averages solved by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from analysis.results import paper_rows, read_table
from analysis.senteval.averages import AVERAGES, average
from tests.analysis.senteval.example_results import records, results

ROUNDING = 1e-9


def recompute(name: str, row: pd.Series) -> float:
    """Returns the average of a paper's row, NaN if one of its cells is not printed."""
    return float(average(AVERAGES[name], lambda task, metric: row.get(f"{task}.{metric}", math.nan)))


def differences(paper: str, name: str) -> dict[str, float]:
    """Returns printed minus recomputed averages of the rows that print both the average and all its cells."""
    rows = paper_rows(paper, "test").dropna(subset=name)
    return {
        model: row[name] - value
        for (model, _), row in rows.iterrows()
        if not math.isnan(value := recompute(name, row))
    }


@pytest.mark.parametrize(
    ("paper", "name", "rows", "tolerance"),
    [
        ("declutr", "declutr_downstream", 9, 0.005),
        ("declutr", "probing", 9, 0.005),
        ("declutr_v1", "declutr_downstream_with_snli", 9, 0.005),
        ("declutr_v1", "probing", 9, 0.005),
        ("declutr_v1", "declutr_v1_all", 9, 0.0075),  # the paper takes the mean of two rounded averages
        ("conssent", "probing", 17, 0.05),
        ("gensen", "gensen_delta", 8, 0.005),
    ],
)
def test_printed_averages_follow_from_printed_cells(paper: str, name: str, rows: int, tolerance: float) -> None:
    values = differences(paper, name)
    assert len(values) == rows
    assert all(abs(difference) <= tolerance + ROUNDING for difference in values.values()), values


def test_conssents_transfer_average_and_its_misprint() -> None:
    values = differences("conssent", "conssent_transfer")
    assert len(values) == 14
    assert values.pop("ConsSent-N(3)") == pytest.approx(-0.08)
    assert all(abs(difference) <= 0.05 + ROUNDING for difference in values.values())


@pytest.mark.parametrize(("split", "end"), [("test", ""), ("dev", "_dev")])
def test_the_first_versions_average_is_the_mean_of_two_printed_ones(split: str, end: str) -> None:
    names = [f"{name}{end}" for name in ("declutr_downstream_with_snli", "probing", "declutr_v1_all")]
    rows = paper_rows("declutr_v1", split)[names].dropna()
    assert len(rows) > 5
    assert ((rows[names[2]] - rows[names[:2]].mean(axis=1)).abs() <= 0.005 + ROUNDING).all()


@pytest.mark.parametrize(
    ("table", "paper", "name"),
    [
        ("declutr_table2_downstream", "declutr", "declutr_downstream"),
        ("declutr_v1_table1", "declutr_v1", "declutr_v1_all"),
    ],
)
def test_printed_deltas_are_differences_to_declutr_base(table: str, paper: str, name: str) -> None:
    values = {model: recompute(name, row) for (model, _), row in paper_rows(paper, "test").iterrows()}
    deltas = pd.to_numeric(read_table(table).set_index("model")["delta"]).dropna()
    assert len(deltas) == 8
    for model, delta in deltas.items():
        difference = values[model] - values["DeCLUTR-base"]
        assert abs(delta - difference) <= 0.01 + ROUNDING


def test_score_of_conssents_figure_3() -> None:
    """Expected values are means of the 20 printed cells, rounded."""
    expected = {"ConsSent-C(4)": 79.70, "ConsSent-P(3)": 81.90, "ConsSent-R(2)": 81.89, "Ensemble": 84.65}
    rows = paper_rows("conssent", "test").iterrows()
    values = {model: recompute("conssent_all", row) for (model, _), row in rows}
    assert {model: values[model] for model in expected} == pytest.approx(expected, abs=0.006)


def test_averages_of_records_by_hand() -> None:
    """All test scores are 70 but MRPC's mean of accuracy and F1 (74); all dev scores are 60."""
    averages = results().averages
    assert averages["declutr_downstream"] == pytest.approx(70 + 4 / 17)
    assert averages["declutr_downstream_dev"] == pytest.approx((12 * 60 + 5 * 70) / 17)
    assert averages["conssent_transfer"] == pytest.approx(70 + 2 * 3 / 10)  # Pearson is 73
    assert averages["gensen_delta"] == pytest.approx((7 * 70 + 78 + 2 * 73 - 856.4) / 10)
    assert averages["sts_spearman_wmean"] == 71 and averages["sts_pearson_all"] == 67
    assert averages["declutr_v1_all"] == pytest.approx((averages["declutr_downstream_with_snli"] + 70) / 2)


def test_only_complete_averages_are_kept_under_stable_names() -> None:
    assert {*results().averages} == {*AVERAGES}
    partly = records()
    del partly["SNLI"]
    assert {*AVERAGES} - {*results(tasks=partly).averages} == {
        f"{name}{end}" for name in ("declutr_downstream_with_snli", "declutr_v1_all") for end in ("", "_dev")
    }
