"""Averages of tasks: printed averages recomputed from printed cells, and labels of incomplete averages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.reporting.printed import PrintedRow, paper_rows, printed, read_table
from analysis.senteval.averages import RULES, Average, average, average_title, averages
from analysis.senteval.records import PROBING, Record
from tests.analysis.senteval.example_results import SENTEVAL, record, records

ROUNDING = 1e-9


def recomputed(rule: str, row: PrintedRow) -> float | None:
    found = average(RULES[rule], row.score)
    return found.value if found and found.complete else None


def differences(paper: str, rule: str) -> dict[str, float]:
    """Returns printed minus recomputed averages of the rows that print both the average and all its cells."""
    return {
        row.model: row.cells["", rule].value - value
        for row in paper_rows(paper, "test")
        if ("", rule) in row.cells and (value := recomputed(rule, row)) is not None
    }


@pytest.mark.parametrize(
    ("paper", "rule", "rows", "tolerance"),
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
def test_printed_averages_follow_from_printed_cells(paper: str, rule: str, rows: int, tolerance: float) -> None:
    found = differences(paper, rule)
    assert len(found) == rows
    assert all(abs(difference) <= tolerance + ROUNDING for difference in found.values()), found


def test_conssents_transfer_average_and_its_misprint() -> None:
    found = differences("conssent", "conssent_transfer")
    assert len(found) == 14
    assert found.pop("ConsSent-N(3)") == pytest.approx(-0.08)
    assert all(abs(difference) <= 0.05 + ROUNDING for difference in found.values())


def test_the_first_versions_average_is_the_mean_of_two_printed_ones() -> None:
    for row in paper_rows("declutr_v1", "test"):
        means = [row.cells["", rule].value for rule in ("declutr_downstream_with_snli", "probing")]
        assert abs(row.cells["", "declutr_v1_all"].value - sum(means) / 2) <= 0.005 + ROUNDING


@pytest.mark.parametrize(
    ("table", "paper", "rule", "tolerance"),
    [
        ("declutr_table2_downstream", "declutr", "declutr_downstream", 0.01),
        ("declutr_v1_table1", "declutr_v1", "declutr_v1_all", 0.01),
    ],
)
def test_printed_deltas_are_differences_to_declutr_base(
    table: str, paper: str, rule: str, tolerance: float
) -> None:
    values = {row.model: recomputed(rule, row) for row in paper_rows(paper, "test")}
    base = values["DeCLUTR-base"]
    assert base is not None
    deltas = {line["model"]: float(line["delta"]) for line in read_table(table) if line["delta"]}
    assert len(deltas) == 8
    for model, delta in deltas.items():
        value = values[model]
        assert value is not None and abs(delta - (value - base)) <= tolerance + ROUNDING


@pytest.mark.parametrize("table", ["declutr_v1_S1", "declutr_v1_S5"])
def test_dev_averages_of_the_first_version(table: str) -> None:
    for row in printed(table):
        means = [row.cells["", rule].value for rule in ("declutr_downstream_with_snli_dev", "probing_dev")]
        assert abs(row.cells["", "declutr_v1_all_dev"].value - sum(means) / 2) <= 0.005 + ROUNDING


def test_score_of_conssents_figure_3() -> None:
    """Expected values are means of the 20 printed cells, rounded."""
    expected = {"ConsSent-C(4)": 79.70, "ConsSent-P(3)": 81.90, "ConsSent-R(2)": 81.89, "Ensemble": 84.65}
    found = {row.model: recomputed("conssent_all", row) for row in paper_rows("conssent", "test")}
    assert {model: found[model] for model in expected} == pytest.approx(expected, abs=0.006)


def test_gensens_baseline_is_zero() -> None:
    [base] = [row for row in printed("gensen_table2") if row.model == "Infersent (AllNLI)"]
    assert recomputed("gensen_delta", base) == 0


def test_rules_name_the_papers_tasks() -> None:
    assert len(RULES["declutr_downstream"].tasks) == 17 and "SNLI" not in RULES["declutr_downstream"].tasks
    assert set(RULES["declutr_v1_all"].tasks) == set(SENTEVAL)
    assert set(RULES["probing"].tasks) == set(PROBING)
    assert len(RULES["conssent_transfer"].tasks) == 10 and len(RULES["conssent_all"].tasks) == 20
    for rule in RULES.values():
        assert len(set(rule.tasks)) == len(rule.tasks) and set(rule.tasks) <= set(SENTEVAL)


def by_name(found: list[Average]) -> dict[str, Average]:
    return {entry.rule.name: entry for entry in found}


def test_averages_of_records_by_hand() -> None:
    found = by_name(averages({"CR": record("CR", 80), "MRPC": record("MRPC", 70), "STS12": record("STS12", 50)}))
    assert found["declutr_downstream"].value == pytest.approx((80 + 74 + 50) / 3)
    assert found["conssent_transfer"].value == pytest.approx((80 + 70) / 2)
    assert found["declutr_downstream_dev"].value == pytest.approx((60 + 60 + 50) / 3)
    assert found["gensen_delta"].value == pytest.approx((80 - 86.3 + 78 - 83.1) / 2)
    assert found["sts_spearman_wmean"].value == 51 and found["sts_pearson_all"].value == 47
    assert "probing" not in found and "declutr_v1_all" not in found


def test_incomplete_and_incomparable_are_marked() -> None:
    tasks = records(("CR", "SNLI", "Length")) | {"SNLI": record("SNLI", n_train=3000)}
    found = by_name(averages(tasks))
    assert found["declutr_downstream"].label == "declutr_downstream (1 of 17)"
    assert found["declutr_downstream_with_snli"].label == "declutr_downstream_with_snli (2 of 18, not comparable)"
    assert found["probing"].describe() == "1 of 10: Length"
    assert found["declutr_v1_all"].value == pytest.approx(70)
    assert found["declutr_v1_all"].describe().endswith("; not comparable: SNLI")


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("declutr_downstream", "mean of DeCLUTR's 17 downstream tasks"),
        ("declutr_downstream (2 of 17)", "mean of 2 of DeCLUTR's 17 downstream tasks"),
        ("probing (9 of 10, not comparable)", "mean of 9 of the 10 probing tasks, not comparable"),
        ("probing (not comparable)", "mean of the 10 probing tasks, not comparable"),
        ("recall@1", "recall@1"),
    ],
)
def test_labels_of_averages_in_words(label: str, title: str) -> None:
    assert average_title(label) == title


def test_an_averages_title_is_its_label_in_words() -> None:
    for entry in averages(records(("CR", "SNLI", "Length")) | {"SNLI": record("SNLI", n_train=3000)}):
        assert entry.title == average_title(entry.label) and entry.title.startswith("mean of ")


def test_complete_averages_have_the_papers_name() -> None:
    assert {entry.label for entry in averages(records())} == set(RULES)


def test_undefined_scores_count_as_missing() -> None:
    undefined = record("STS12", spearman={"mean": None, "wmean": None, "all": None})
    found = by_name(averages({"STS12": undefined, "STS13": record("STS13")}))
    assert found["sts_spearman_mean"].tasks == ("STS13",)


def test_averages_over_given_tasks() -> None:
    rule = RULES["probing"]
    scores: dict[str, float] = {"Length": 10.0, "Depth": 20.0}

    def score(task: str, metric: str) -> float | None:
        return scores.get(task)

    assert average(rule, score, over=("Length",)) == Average(
        rule, 10.0, ("Length",), tuple(task for task in PROBING if task != "Length")
    )
    assert average(rule, score, over=("Length", "Tense")) is None
    assert average(rule, lambda task, metric: None) is None


@given(st.dictionaries(st.sampled_from(SENTEVAL), st.floats(0, 100), min_size=1))
def test_every_average_lies_between_its_scores(scores: dict[str, float]) -> None:
    tasks: dict[str, Record] = {task: record(task, score) for task, score in scores.items()}
    for entry in averages(tasks):
        assert set(entry.tasks) | set(entry.missing) == set(entry.rule.tasks) and set(entry.tasks) <= set(scores)
        if entry.rule.baseline is None and entry.rule.split == "test":
            values = [scores[task] for task in entry.tasks]
            assert min(values) - 5.001 <= entry.value <= max(values) + 4.001
