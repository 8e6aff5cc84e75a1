"""Results of several models: frames, means over seeds, averages, the papers' rows, and the commands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from analysis.results import (
    average_seeds,
    draw_results,
    flat_scores,
    group_results,
    measure,
    paper_rows,
    read_frame,
    read_named,
    report_differences,
    report_ranking,
    report_table,
    score,
    tabulate,
    tidy,
)
from analysis.senteval.averages import AVERAGES, PROBING, average
from analysis.senteval.records import Results, write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import DOWNSTREAM, SENTEVAL, record, records, results

COCO = "ImageCaptionRetrieval"


def wide(*scores: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"A": str(number), "seed": 1, "run": f"run{number}", **row} for number, row in enumerate(scores)]
    )


def write(folder: Path, name: str, *tests: float, run: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Writes results of CR and MRPC, and of the run with a configuration."""
    folder.mkdir(parents=True)
    tasks = {
        task: record(task, test, dev=test, files="x", **changes)
        for task, test in zip(("CR", "MRPC", "STS12"), tests, strict=False)
    }
    write_results(folder / "senteval.json", results(name, tasks))
    if run is not None:
        (folder / "config.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    return folder


# Printed rows


def test_cells_of_printed_rows_by_hand() -> None:
    declutr, gensen = paper_rows("declutr", "test"), paper_rows("gensen", "test")
    glove = declutr.loc[("GloVe", "bag_of_words")]
    assert glove["SICKRelatedness.spearman"] == 72.3 and glove["STS13.spearman.mean"] == 51.24
    assert glove["declutr_downstream"] == 65.47 and glove["probing"] == 62.42  # of two tables
    assert score(declutr, "MRPC.accuracy+f1")["GloVe", "bag_of_words"] == pytest.approx((73.39 + 81.45) / 2)
    assert gensen.loc[("Infersent (AllNLI)", "transfer"), "SICKRelatedness.pearson"] == 88.4
    assert gensen.loc[("m-CNN", "from_scratch"), f"{COCO}.recalls.caption_r1"] == 38.3
    assert declutr.loc["QuickThoughts"]["SST5.test"].isna().all()
    assert {key.partition(".")[0] for key in declutr if "." in key} == {*SENTEVAL}
    assert paper_rows("declutr_v1", "dev").loc["BERT-base"]["probing_dev"].nunique() == 2  # before and after
    assert paper_rows("conssent", "dev").empty and len(declutr) == 10


def test_printed_averages_follow_from_their_cells() -> None:
    for paper, name in (("declutr", "declutr_downstream"), ("conssent", "probing"), ("gensen", "gensen_delta")):
        printed = paper_rows(paper, "test")
        computed = score(printed.drop(columns=name), name)
        assert (computed - printed[name]).abs().max() < 0.06 and computed.notna().sum() > 7


# Wide frames


def test_numbers_of_records_are_columns() -> None:
    scores = flat_scores({"STS12": record("STS12"), "CR": record("CR", n_train=5)})
    assert scores["STS12.spearman.wmean"] == 71 and scores["STS12.comparable"] and not scores["CR.comparable"]
    assert "CR.kind" not in scores and "STS12.dev" not in scores


def test_a_mean_of_metrics_needs_both() -> None:
    scores = measure(wide({"MRPC.accuracy": 70.0, "MRPC.f1": 80.0}, {"MRPC.accuracy": 70.0}), "MRPC.accuracy+f1")
    assert scores.values[0] == 75 and pd.isna(scores.values[1]) and scores.whole and scores.comparable
    quick = measure(wide({"recall@1": 12.0}), "recall@1")
    assert [*quick.values] == [12] and quick.whole and not quick.comparable


def test_an_average_is_over_the_tasks_of_all_evaluated_rows() -> None:
    full = {"CR.test": 80.0, "MR.test": 70.0, "TREC.test": 90.0}
    scores = measure(
        wide(full, {**full, "CR.test": 60.0, "TREC.test": None}, {"recall@1": 5.0}), "declutr_downstream"
    )
    assert scores.values[:2].tolist() == [75, 65] and pd.isna(scores.values[2])
    assert not scores.whole and scores.tasks == ("CR", "MR") and "2 of" in scores.label and "17" in scores.label
    for frame in (wide({"CR.test": 1.0}, {"MR.test": 1.0}), wide({})):
        scores = measure(frame, "declutr_downstream")
        assert scores.values.isna().all() and not scores.whole and not scores.comparable
    foreign = wide({**full, "CR.comparable": True}, {**full, "CR.comparable": False})
    assert not measure(foreign, "CR.test").comparable and not measure(foreign, "declutr_downstream").comparable


@pytest.mark.parametrize("name", ["gensen_delta", "declutr_v1_all"])
def test_averages_equal_those_of_single_results(name: str) -> None:
    tasks = {task: record(task, 50.0 + place) for place, task in enumerate(SENTEVAL)}
    scores, mean = (
        measure(wide(flat_scores(tasks)), name),
        average(AVERAGES[name], lambda *key: tasks[key[0]].score(key[1])),
    )
    assert mean and scores.values[0] == pytest.approx(mean) and scores.whole


def test_a_long_frame_has_a_row_a_score() -> None:
    long = tidy(wide({"CR.test": 80.0, "MR.test": 70.0}, {"CR.test": 60.0}), {"CR": "CR.test", "MR": "MR.test"})
    assert [*long.columns] == ["A", "seed", "run", "panel", "score"]
    assert long[["A", "panel", "score"]].values.tolist() == [["0", "CR", 80], ["1", "CR", 60], ["0", "MR", 70]]


# Results by name


def test_results_are_read_as_a_frame(tmp_path: Path) -> None:
    for seed in (7, 3):
        write(tmp_path / f"a{seed}", "m", 80.0 + seed, run={"seed": seed, "objective": {"task": "D", "k": 2}})
    write(tmp_path / "b", "other", 60.0)
    frame = read_frame(
        [f"{tmp_path}/a*", f"B={tmp_path}/b", f"{tmp_path}/b/senteval.json"], ["objective.task", "objective.k"]
    )
    assert [*frame.index] == [
        ("D 2", "default", 3),
        ("D 2", "default", 7),
        ("B", "default", 1),
        ("other", "default", 1),
    ]
    assert frame["CR"]["test"].tolist() == [83, 87, 60, 60] and ("CR", "comparable") in frame
    for path in ("nowhere", "no*"):
        with pytest.raises(UserError):
            read_named([str(tmp_path / path)])
    (tmp_path / "b" / "config.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(UserError):
        read_frame([str(tmp_path / "b")])


def test_unequal_experiments_are_not_pooled(tmp_path: Path) -> None:
    for number, lr in enumerate((1, 1, 2)):
        write(tmp_path / f"{number}", "m", 80.0, run={"seed": number, "threads": number, "optimizer": {"lr": lr}})
    stored = read_named([f"{tmp_path}/?"])
    assert [*group_results(stored[:2])] == [("m", "default")]
    pooled = stored[1].model_copy(update={"model": {"name": "m", "pooling": "cls"}})
    for other in (stored[2], pooled):
        with pytest.raises(UserError) as error:
            group_results([stored[0], other])
        assert error.value.key == "results: m"


# Tables


def table(*stored: Results, papers: Any = (), split: Any = "test") -> tuple[pd.DataFrame, pd.DataFrame]:
    return tabulate(stored, papers, split)


def test_models_are_shown_side_by_side() -> None:
    ours, printed = table(results("a", records(("MRPC", "CR"))), results("b", records(("STS12", "CR"), 60)))
    assert [*ours] == ["CR", "MRPC.accuracy", "MRPC.f1", "STS12.spearman.mean"] and printed.empty
    assert ours["CR"].tolist() == [70, 60] and ours["MRPC.f1"].isna().tolist() == [False, True]
    assert len(table(results("a"))[0].filter(like="mean of").columns) == 3
    dev, _ = table(results("a", records(("CR", "STSBenchmark", "STS12"))), split="dev")
    assert [*dev] == ["CR", "STSBenchmark.dev_pearson"]
    with pytest.raises(UserError):
        table(results("a", {}))


def test_printed_rows_stand_below_in_their_metrics() -> None:
    ours, printed = table(results("a"), papers=["declutr", "conssent"])
    glove = printed.loc["GloVe"].iloc[0]
    assert glove[["SICKRelatedness.spearman", f"mean of {AVERAGES['declutr_downstream'].title}"]].tolist() == [
        72.3,
        65.47,
    ]
    assert ours["SICKRelatedness.pearson"].tolist() == [73] and "STS12.pearson.mean" not in ours
    assert {protocol for _, protocol, _ in printed.index} == {"declutr", "conssent"}
    tasks = tuple(task for task in DOWNSTREAM if task not in ("SNLI", COCO))
    label = f"mean of 16 of {AVERAGES['declutr_downstream'].title}"
    ours, printed = table(results("a", records(tasks)), papers=["declutr"])
    assert label in ours and printed[label].loc[["GloVe", "fastText"]].round(2).tolist() == [
        69.54,
        72.82,
    ]  # its README


def test_scores_on_other_data_never_stand_beside_printed_ones() -> None:
    cut = records(DOWNSTREAM) | {task: record(task, n_train=2400) for task in PROBING}
    cut["STSBenchmark"] = record("STSBenchmark", mse=None)
    ours, _ = table(results("a", cut), papers=["declutr"])
    assert not {*PROBING, "STSBenchmark.spearman"} & {*ours} and not ours.columns.str.contains("probing").any()
    assert ours.columns.str.contains("16 of").any()
    ours, _ = table(results("a", cut), results("b"), papers=["declutr"])
    assert ours["Length"].isna().tolist() == [True, False]
    assert "Length.test (not comparable)" in table(results("a", cut))[0]


def test_means_over_seeds_have_spreads() -> None:
    index = pd.MultiIndex.from_tuples(
        [("a", "p", 1), ("a", "p", 2), ("a", "p", 3), ("b", "p", 1)], names=["model", "protocol", "seed"]
    )
    frame = pd.DataFrame({"x": [80.0, 83, 86, 70], "y": [1, None, 1, 1.0]}, index)
    means, deviations = average_seeds(frame, interval=False)
    assert means["x"].tolist() == [83, 70] and deviations.loc[("a", "p"), "x"] == 3
    assert means["y"].isna().tolist() == [True, False] and pd.isna(deviations.loc[("b", "p"), "x"])
    halves = average_seeds(frame, interval=True)[1]
    assert halves.loc[("a", "p"), "x"] == pytest.approx(4.302653 * 3 / 3**0.5)


# Commands


def test_commands_print_tables_and_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, test in enumerate((80.0, 83.0, 86.0)):
        write(tmp_path / f"a{number}", "a", test, 70.0, run={"seed": number})
        write(tmp_path / f"b{number}", "b", test - 1 - number, 60.0, n_train=9)
    paths = [f"{tmp_path}/a*", f"{tmp_path}/b*"]

    def printed(**keys: Any) -> str:
        report_table(**{"results": paths, **keys})
        return "".join(capsys.readouterr())

    assert "83.00 ± 7.45" in printed(interval=True) and "83.00 ± 3.00" in printed(mean=True, tasks=["CR"])
    assert "a,default,83.00,3.00" in printed(mean=True, tasks=["CR"], format="csv")
    assert "Not comparable" in printed() and "Left out" in printed(
        papers=["gensen"], results=[*paths[:1], f"{tmp_path}/b0"]
    )
    difference = printed(against="b", tasks=["CR"], format="csv").splitlines()[1]
    half = 4.302653 / 3**0.5  # differences 1, 2 and 3
    assert difference == f"a,default,CR,test,83.00,81.00,2.00,{2 - half:.2f},{2 + half:.2f}"
    report_differences(results=[f"{tmp_path}/a0", f"{tmp_path}/a2"], tasks=["CR"])
    assert "-6.00" in capsys.readouterr().out
    draw_results(results=paths[:1], out=str(tmp_path / "picture"))
    assert {path.suffix for path in tmp_path.glob("picture.*")} == {".pdf", ".png", ".csv"}
    for keys in ({"mean": True, "against": "b"}, {"against": "c"}):
        with pytest.raises(UserError) as error:
            report_table(results=paths, **keys)
        assert error.value.key in keys
    with pytest.raises(UserError):
        report_differences(results=paths)


def test_the_best_of_each_group_by_mean_dev(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = (("d1", "D", (60.0, 50.0, 99.0)), ("d2", "D", (50.0, 70.0, 1.0)), ("p", "P", (90.0, 10.0, 1.0)))
    folders = [
        str(write(tmp_path / name, name, *tests, run={"objective": {"task": task}})) for name, task, tests in runs
    ]
    folders.append(str(write(tmp_path / "mt", "mt", 1.0, 2.0, 3.0, run={"names": {"objective": "conssent_mt"}})))
    report_ranking(results=folders)
    output = capsys.readouterr().out
    assert (
        output.splitlines()[-1] == f"results=[{folders[1]},{folders[2]},{folders[3]}]" and "conssent_mt" in output
    )
    report_ranking(results=folders[:3], by=["none"], top=2)
    assert capsys.readouterr().out.splitlines()[-1] == f"results=[{folders[1]},{folders[0]}]"
    for other in (write(tmp_path / "x", "x", 1.0), write(tmp_path / "y", "y", math.nan, 1.0, 1.0)):
        with pytest.raises(UserError):
            report_ranking(results=[*folders, str(other)])
