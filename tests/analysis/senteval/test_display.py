"""The table of a model's finished and pending tasks, and its remarks."""

from __future__ import annotations

import io

from rich.console import Console

from analysis.senteval.display import metrics_of, remarks, task_table
from analysis.senteval.records import metric_of
from tests.analysis.senteval.example_results import record, records


def test_the_live_table_shows_finished_and_pending_tasks() -> None:
    finished = {"CR": record("CR", 80, l2=[1e-4, 1e-5, 1e-4]), "MRPC": record("MRPC"), "STS12": record("STS12")}
    finished["SNLI"] = record("SNLI", n_train=3000)
    finished["STSBenchmark"] = record("STSBenchmark")
    table = task_table(finished, {"MR": "training, 40 %", "STS13": "no [x]"}, title="[m] default")
    console = Console(width=140, file=io.StringIO())
    with console.capture() as capture:
        console.print(table)
    lines = {line.split("│")[1].strip(): line for line in capture.get().split("\n") if line.startswith("│")}
    assert list(lines) == ["MR", "CR", "MRPC", "SNLI", "STSBenchmark", "STS12", "STS13"]
    assert "training, 40 %" in lines["MR"] and "no [x]" in lines["STS13"]
    assert (
        "60.00" in lines["CR"] and "80.00" in lines["CR"] and "3,775" in lines["CR"] and "~0.0001" in lines["CR"]
    )
    assert "F1 78.00" in lines["MRPC"] and "not comparable" in lines["SNLI"]
    metrics = {name: line.split("│")[2].strip() for name, line in lines.items()}
    assert metrics == {"MR": "", "STS13": ""} | dict.fromkeys(("CR", "MRPC", "SNLI"), "accuracy") | {
        "STSBenchmark": "Spearman (dev: Pearson)",
        "STS12": "mean Spearman",
    }
    assert lines["STS12"].split("│")[3].strip() == "–"
    assert "L2: weight of the penalty, chosen on dev" in capture.get()
    assert "Not comparable with published scores: SNLI: 3,000 training examples, SentEval has" in capture.get()
    assert "[m] default" in capture.get() and "DeCLUTR" not in capture.get()  # too few tasks for a mean
    with console.capture() as capture:
        console.print(task_table(records(tuple(f"STS{year}" for year in (12, 13, 14, 15)))))
    assert "mean of 4 of STS12 to STS16, Spearman, subsets' mean: " in capture.get()
    assert task_table({}).row_count == 0


def test_only_a_table_with_dev_scores_names_their_metric() -> None:
    assert metric_of(record("STSBenchmark")) == "Spearman"
    assert metrics_of(record("STSBenchmark")) == "Spearman (dev: Pearson)"


def test_an_undefined_score_has_a_remark() -> None:
    undefined = record("STS12")
    undefined["test"] = None
    found = remarks({"STS12": undefined, "STS13": record("STS13")})
    assert found[-1] == "Undefined, as all similarities or gold scores of a set are equal: STS12."
