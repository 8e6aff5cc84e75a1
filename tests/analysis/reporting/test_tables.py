"""Tables of models and of the papers' printed rows: columns, averages, scores left out, output formats."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from scipy import stats

from analysis.reporting.printed import Cell
from analysis.reporting.rendering import (
    Grid,
    Row,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    heading,
    score_cell,
)
from analysis.reporting.tables import comparison, merged, report_table
from analysis.senteval.records import PROBING
from analysis.senteval.results import write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import DOWNSTREAM, record, records, results

CR, F1 = ("CR", "test"), ("MRPC", "f1")


def cell_texts(row: Row) -> dict[tuple[str, str], str]:
    return {key: cell.text for key, cell in row.cells.items()}


def row_named(rows: list[Row], name: str) -> Row:
    [found] = [row for row in rows if row.name == name]
    return found


def test_models_are_shown_side_by_side() -> None:
    grid = comparison([results("a", records(("CR", "MRPC"), 80)), results("b", records(("CR", "STS12"), 70))])
    assert grid.columns[:4] == [CR, ("MRPC", "accuracy"), F1, ("STS12", "spearman.mean")]
    assert [row.name for row in grid.ours] == ["a", "b"] and not grid.printed
    assert cell_texts(grid.ours[0])[F1] == "88.00" and F1 not in grid.ours[1].cells
    assert grid.notes[0] == "Protocol: default."
    dev = comparison([results("a", records(("CR", "MRPC", "STS12")))], split="dev")
    assert dev.columns == [("CR", "dev"), ("MRPC", "dev")]  # 3 of 17 tasks are too few for an average


def test_columns_on_dev_name_their_correlation() -> None:
    plain = record("STSBenchmark", dev=50, mse=None)
    grid = comparison(
        [results("a", {"STSBenchmark": record("STSBenchmark")}), results("b", {"STSBenchmark": plain})],
        split="dev",
    )
    assert [heading(key) for key in grid.columns] == ["STS-B Pearson", "STS-B Spearman"]
    assert [[*cell_texts(row).values()] for row in grid.ours] == [["60.00"], ["50.00", "50.00"]]


@pytest.mark.parametrize("split", ["test", "dev"])
def test_an_average_with_snli_is_added_where_snli_was_evaluated(split: str) -> None:
    tasks_without = tuple(task for task in DOWNSTREAM if task != "SNLI")
    for tasks in (DOWNSTREAM, tasks_without):
        names = [name for _, name in comparison([results("a", records(tasks))], split=split).columns]
        assert any("with_snli" in name for name in names) == ("SNLI" in tasks)


def test_averages_are_over_the_tasks_of_the_fullest_row() -> None:
    tasks = ("CR", "MR", "MPQA", "SUBJ", "SST2", "TREC", "MRPC", "SST5", "STS12")
    grid = comparison([results("a", records(tasks, 80)), results("b", records(("CR",), 70))])
    key = "", "declutr_downstream (9 of 17)"
    assert cell_texts(grid.ours[0])[key] == "80.44" and key not in grid.ours[1].cells
    assert "mean of DeCLUTR's 17 downstream tasks is over 9 of 17; without " in " ".join(grid.notes)
    assert comparison([results("a", records(("CR",)))]).columns == [CR]  # an average needs two tasks
    all_tasks = comparison([results("a")])
    assert ("", "declutr_downstream") in all_tasks.columns and ("", "probing") in all_tasks.columns


def test_printed_rows_are_shown_with_their_metrics() -> None:
    grid = comparison([results("a")], ["declutr"])
    glove = row_named(grid.printed, "GloVe")
    assert cell_texts(glove)["SICKRelatedness", "spearman"] == "72.30"
    assert cell_texts(glove)["", "declutr_downstream"] == "65.47" and cell_texts(glove)["", "probing"] == "62.42"
    assert cell_texts(grid.ours[0])["", "declutr_downstream"] == f"{70 + 4 / 17:.2f}"
    pearson = comparison([results("a")], ["conssent"])
    assert ("SICKRelatedness", "spearman") not in pearson.columns
    assert cell_texts(pearson.ours[0])["SICKRelatedness", "pearson"] == "73.00"
    assert ("STS12", "spearman.mean") not in pearson.columns and ("SST5", "test") not in pearson.columns
    both = comparison([results("a")], ["declutr", "gensen"])
    assert {("STSBenchmark", "spearman"), ("STSBenchmark", "pearson"), ("STS12", "pearson.mean")} <= set(
        both.columns
    )
    assert ("STSBenchmark", "pearson") not in row_named(both.printed, "DeCLUTR-base").cells
    assert cell_texts(row_named(both.printed, "+STN"))["", "gensen_delta"] == "-2.56"


def test_incomplete_averages_of_printed_rows_are_over_the_same_tasks() -> None:
    tasks = tuple(task for task in DOWNSTREAM if task not in ("SNLI", "ImageCaptionRetrieval"))
    grid = comparison([results("a", records(tasks))], ["declutr"])
    key = "", "declutr_downstream (16 of 17)"
    assert key in grid.columns and ("", "declutr_downstream") not in grid.columns
    # Averages without COCO, as given in the README of the printed tables.
    assert cell_texts(row_named(grid.printed, "GloVe"))[key] == "69.54"
    assert cell_texts(row_named(grid.printed, "fastText"))[key] == "72.82"
    assert key not in row_named(grid.printed, "QuickThoughts").cells
    notes = " ".join(grid.notes)
    mean = "mean of DeCLUTR's 17 downstream tasks"
    assert f"{mean} is over 16 of 17; without ImageCaptionRetrieval (DeCLUTR, appendix C.2)." in notes
    assert "In printed rows, mean of 16 of DeCLUTR's 17 downstream tasks is computed from their cells" in notes


def test_scores_on_other_data_are_never_shown_with_printed_rows() -> None:
    tasks = records(DOWNSTREAM) | {task: record(task, n_train=2400) for task in PROBING}
    tasks["SNLI"] = record("SNLI", n_train=3000)
    grid = comparison([results("a", tasks)], ["declutr", "declutr_v1", "conssent"])
    shown = {task for task, _ in grid.columns}
    assert not shown & {*PROBING, "SNLI"}
    assert not any("probing" in name for task, name in grid.columns if not task)
    assert "Left out: SNLI (3,000 training examples, SentEval has 549,367); Length, " in " ".join(grid.notes)
    without_papers = comparison([results("a", tasks)])
    assert ("Length", "test") in without_papers.columns and (
        "",
        "probing (not comparable)",
    ) in without_papers.columns
    assert "Not comparable with printed scores: SNLI (3,000 training" in " ".join(without_papers.notes)
    assert "mean of the 10 probing tasks is over 10 of 10; all not comparable (DeCLUTR" in " ".join(
        without_papers.notes
    )


def test_plain_cosine_and_trained_scores_do_not_share_a_column() -> None:
    tasks = {"STSBenchmark": record("STSBenchmark", mse=None, protocol="simcse"), "STS12": record("STS12")}
    grid = comparison([results("a", tasks, protocol="simcse")], ["declutr"])
    assert [key for key in grid.columns if key[0]] == [("STS12", "spearman.mean")]
    assert "Left out: STSBenchmark (plain cosine, nothing trained)." in grid.notes
    assert "declutr: as printed, protocol default, another than ours." in grid.notes


def test_one_model_on_other_data_keeps_the_column_for_the_others() -> None:
    cut = results("cut", records(("CR",)) | {"SNLI": record("SNLI", n_train=3000)})
    grid = comparison([results("whole", records(("CR", "SNLI"))), cut], ["declutr"])
    assert ("SNLI", "test") in grid.ours[0].cells and ("SNLI", "test") not in grid.ours[1].cells


def test_dev_averages_are_shown_with_table_4() -> None:
    grid = comparison([results("a")], ["declutr", "declutr_v1"], "dev")
    albert = [cell_texts(row) for row in grid.printed if row.name == "ALBERT-base-V2-CLS"]
    assert [row["", "declutr_downstream_dev"] for row in albert[:1]] == ["58.75"]
    assert [row["", "declutr_downstream_with_snli_dev"] for row in albert[1:]] == ["58.81"]
    assert cell_texts(row_named(grid.printed, "InferSent"))["", "declutr_downstream_dev"] == "76.33"
    assert cell_texts(grid.ours[0])["", "declutr_downstream_dev"] == f"{(12 * 60 + 5 * 70) / 17:.2f}"
    two_tasks = comparison([results("a", records(("CR", "MR")))], ["declutr"], "dev")
    own_row, [printed] = (
        two_tasks.ours[0].cells,
        [cell_texts(row) for row in two_tasks.printed if row.name == "ALBERT-base-V2-CLS"],
    )
    assert two_tasks.columns[-2:] == [("", "declutr_downstream_dev (2 of 17)"), ("", "declutr_downstream_dev")]
    assert two_tasks.columns[-1] not in own_row and printed == {two_tasks.columns[-1]: "58.75"}, (
        "averages over different tasks need separate columns"
    )
    assert any("over all 17 tasks: not to be compared" in note for note in two_tasks.notes)
    twice = [results("a", records(("CR", "MR"))) for _ in range(2)]
    assert comparison(twice, ["declutr"], "dev", mean=True).columns == two_tasks.columns


def test_equal_names_are_numbered_and_other_protocols_named() -> None:
    def shown_name(name: str, protocol: str = "default") -> str:
        return comparison([results(name, protocol=protocol), *others]).ours[0].name

    others = [results("a")]
    assert shown_name("a") == "a #1" and shown_name("b") == "b"
    grid = comparison([results("a"), results("a", protocol="simcse")])
    assert [row.name for row in grid.ours] == ["a (default)", "a (simcse)"]
    assert grid.notes[0] == "Protocols, not to be compared: default, simcse."


def test_results_of_one_name_become_mean_and_deviation() -> None:
    test_scores = {"a": (80, 83, 86), "b": (70,)}
    stored = [
        results(name, records(("CR", "MRPC", "TREC"), score))
        for name, scores in test_scores.items()
        for score in scores
    ]
    stored[1].tasks.pop("MRPC")  # a mean needs MRPC in all three results of a
    grid = comparison(stored, ["conssent"], mean=True)
    assert [row.name for row in grid.ours] == ["a", "b"]
    assert grid.ours[0].cells[CR] == Cell(83, "83.00 ± 3.00") and grid.ours[0].deviations[CR] == 3
    assert cell_texts(grid.ours[1])[CR] == "70.00" and not grid.ours[1].deviations
    assert ("MRPC", "accuracy") not in grid.ours[0].cells and ("MRPC", "accuracy") in grid.ours[1].cells
    assert "Mean ± standard deviation over the results of each name: a (3), b (1)." in grid.notes
    assert grid.is_best(grid.ours[0], CR)
    written = [*csv.DictReader(io.StringIO(as_csv(grid)))]
    assert [written[0][name] for name in ("CR", "CR.sd", "TREC", "TREC.sd")] == ["83.00", "3.00", "83.00", "3.00"]
    assert written[1]["CR"] == "70.00" and written[1]["CR.sd"] == "" and "MRPC.accuracy.sd" not in written[0]
    assert r"\textbf{83.00 $\pm$ 3.00}" in as_latex(grid) and "**83.00 ± 3.00**" in as_markdown(grid)
    assert max(map(len, as_text(grid, 60).split("\n"))) <= 60 and "83.00 ± 3.00" in as_text(grid, 60)
    bounds = comparison(stored, interval=True)  # 4.303: Student's t with 2 degrees of freedom at 0.975
    assert bounds.ours[0].cells[CR] == Cell(83, "83.00 ± 7.45")
    assert bounds.ours[0].deviations[CR] == pytest.approx(4.302653 * 3 / 3**0.5)
    assert "Mean ± half of its 95 % interval (t) over the results of each name: a (3), b (1)." in bounds.notes
    assert next(csv.DictReader(io.StringIO(as_csv(bounds))))["CR.ci95"] == "7.45"
    single = comparison([results("a"), results("b")], mean=True)
    assert cell_texts(single.ours[0])[CR] == "70.00" and not any("deviation" in note for note in single.notes)


def test_protocols_are_never_averaged_together() -> None:
    stored = [results("a", protocol=protocol) for protocol in ("default", "simcse", "default")]
    grid = comparison(stored, mean=True)
    assert [row.name for row in grid.ours] == ["a (default)", "a (simcse)"]
    assert cell_texts(grid.ours[0])[CR] == "70.00 ± 0.00" and cell_texts(grid.ours[1])[CR] == "70.00"


def test_equal_names_of_several_protocols_are_counted_apart() -> None:
    scores = {CR: score_cell(70)}
    rows = [Row("a", scores, protocol=protocol) for protocol in ("default", "default", "simcse")]
    grid = merged(Grid("", [CR], rows))
    assert [(row.protocol, row.cells[CR].text) for row in grid.ours] == [
        ("default", "70.00 ± 0.00"),
        ("simcse", "70.00"),
    ]
    assert grid.notes == ["Mean ± standard deviation over the results of each name: a (2), a (1)."]


def test_selected_tasks_have_columns_and_averages_cover_all() -> None:
    """The selected tasks are those of ConsSent's figure 1; its tables 2 and 3 print the averages."""
    grid = comparison([results("a", protocol="conssent")], ["conssent"], tasks=["TREC", "MRPC", "STSBenchmark"])
    assert grid.columns == [
        ("TREC", "test"),
        ("MRPC", "accuracy"),
        ("STSBenchmark", "pearson"),
        *(("", name) for name in ("probing", "conssent_transfer", "conssent_all")),
    ]
    printed_row = cell_texts(row_named(grid.printed, "ConsSent-R(2)"))
    assert [printed_row[key] for key in grid.columns] == ["92.6", "75.9", "72.0", "79.7", "84.1", "81.89"]
    assert cell_texts(row_named(grid.printed, "Ensemble"))["", "conssent_all"] == "84.65"
    assert "conssent: as printed, protocol conssent." in grid.notes
    assert not any("swapped" in note for note in grid.notes)
    assert any("SICK-R of Untrained LSTM" in note for note in comparison([results("a")], ["conssent"]).notes)


def test_missing_files_are_named_once() -> None:
    missing = {"SNLI": "s1.train", "CR": "x"}
    grid = comparison([results("a", missing=missing), results("b", missing=missing), results("c")])
    assert "No files of SNLI, CR for a, b." in grid.notes


def test_results_without_a_comparable_score_are_refused() -> None:
    with pytest.raises(UserError, match=r"There is no test score in the results of a\."):
        comparison([results("a", {})])
    with pytest.raises(UserError, match=r"no test score that can stand beside gensen in the results of a\."):
        comparison([results("a", records(("SST5",)))], ["gensen"])


def test_best_scores_are_marked_per_protocol() -> None:
    stored = [results(str(score), records(("CR",), score)) for score in (70, 75)]
    stored += [results(str(score), records(("CR",), score), protocol="simcse") for score in (80, 81, 81)]
    grid = comparison([*stored, results("alone", records(("CR",), 90), protocol="gensen")])
    assert [grid.is_best(row, CR) for row in grid.ours] == [False, True, False, True, True, False]


def test_differences_are_paired_in_their_order() -> None:
    test_scores = {"a": (80, 83, 86), "b": (79, 81, 83), "start": (70,), "few": (60, 62)}
    stored = [results(name, records(("CR",), score)) for name, scores in test_scores.items() for score in scores]
    paired = comparison(stored, against="b")
    shown = {row.name: row.cells[CR].text for row in paired.ours}
    half = 4.302653 * 1 / 3**0.5  # differences 1, 2, 3; 4.303: Student's t at 0.975
    welch = stats.ttest_ind([60, 62], [79, 81, 83], equal_var=False).confidence_interval()
    assert shown == {
        "a": f"+2.00 ± {half:.2f}",
        "start": f"-11.00 ± {4.302653 * 2 / 3**0.5:.2f}",
        "few": f"-20.00 ± {(welch.high - welch.low) / 2:.2f}",
    }
    assert (
        "in their order where there are as many of both: a (3, 3), start (1, 3), few (2, 3)." in paired.notes[-1]
    )
    assert next(csv.DictReader(io.StringIO(as_csv(paired))))["CR.ci95"] == f"{half:.2f}"
    single = comparison(stored[6:8], against="start")
    [difference] = single.ours
    assert difference.cells[CR].text == "-10.00" and not difference.deviations
    assert single.notes[-1] == "Difference to start: one result of each, so that there is no interval."
    with pytest.raises(UserError, match=r"^against must be one of two .* a, b, start, few\. Got c instead\.$"):
        comparison(stored, against="c")
    stored.append(results("b", records(("CR",), 99), protocol="simcse"))
    shown = {row.name: row.cells[CR].text for row in comparison(stored, against="b (default)").ours}
    assert shown["a (default)"] == f"+2.00 ± {half:.2f}" and "b (simcse)" not in shown


def test_text_fits_the_width() -> None:
    grid = comparison([results("a" * 20), results("b")], ["declutr"])
    for width in (70, 100):
        text = as_text(grid, width)
        assert max(map(len, text.split("\n"))) <= width
        assert "…" not in text
    assert text.count("DeCLUTR-base") == text.count("a" * 20) > 1
    for part in ("SentEval, test", "TreeDepth", "79.59", "declutr: as printed, protocol default."):
        assert part in text


def store(folder: Path, config: str = "", **model: str) -> str:
    """Writes results of two tasks, and the configuration of their run."""
    folder.mkdir()
    stored = results(folder.name, records(("CR", "MRPC")))
    stored.model |= model
    write_results(folder / "senteval.json", stored)
    if config:
        (folder / "config.yaml").write_text(config, encoding="utf-8")
    return str(folder)


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = store(tmp_path / "a", "objective: {task: D}\nseed: 1\n"), store(tmp_path / "b")
    for form in ("text", "md", "csv", "latex"):
        report_table(results=[f"{a}/senteval.json", b], papers=["declutr"], format=form)
        shown = capsys.readouterr()
        assert "70.00" in shown.out and "GloVe" in shown.out
        assert ("declutr: as printed" in shown.err) == (form == "csv")
    report_table(results=[f"{tmp_path}/?"], split="dev", by=["objective.task"], format="csv")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model,source,protocol,CR.dev,MRPC.dev"
    assert [line.split(",")[0] for line in lines[1:]] == ["D", "b"]


def test_results_of_one_name_are_seeds_of_one_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (store(tmp_path / f"x-{seed}", f"optimizer: {{lr: 1}}\nseed: {seed}\n") for seed in (1, 2))
    report_table(results=[f"x={first}", f"x={second}"], mean=True, tasks=["CR"], format="csv")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model,source,protocol,CR,CR.sd") and "MRPC" not in lines[0]
    assert lines[1].startswith("x,ours,default,70.00,0.00")
    longer = store(tmp_path / "x-longer", "optimizer: {lr: 2}\nseed: 1\n")
    start = store(tmp_path / "x-start", path="modernbert-mini-2")
    pooled = store(tmp_path / "x-max", "optimizer: {lr: 1}\nseed: 3\n", pooling="max")
    for other in (longer, start, pooled):
        report_table(results=[f"x={first}", other], mean=True)
        with pytest.raises(UserError) as error:
            report_table(results=[f"x={first}", f"x={second}", f"x={other}"], interval=True)
        assert error.value.key == "results: x"
    with pytest.raises(UserError):
        report_table(results=[f"x={tmp_path}/x-*"], against="x")
    with pytest.raises(UserError) as error:
        report_table(results=[first, second], mean=True, against="b")
    assert error.value.key == "mean"
