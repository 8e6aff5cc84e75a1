"""Results of several models: frames, means over seeds, averages, the papers' rows, and the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from analysis.results import (
    average_seeds,
    paper_rows,
    read_frame,
    report_table,
    select_scores,
)
from analysis.senteval.averages import AVERAGES
from analysis.senteval.records import flat_scores
from data.errors import UserError
from data.files import write_json
from tests.analysis.senteval.example_results import SENTEVAL, record, records, results

COCO = "ImageCaptionRetrieval"


def wide(*scores: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"A": str(number), "seed": 1, "run": "", **row} for number, row in enumerate(scores)])


def select(metric: str, *scores: dict[str, Any], paper: str = "declutr") -> tuple[list[float], pd.Series, str]:
    """Returns our values, a paper's by model, and the label of a metric."""
    ours, printed, labels = select_scores(wide(*scores), [metric], paper_rows(paper, "test"))
    return ours[metric].tolist(), printed[metric].droplevel(1), labels[metric]


def write(folder: Path, name: str, *tests: float, run: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Writes results of CR, MRPC and STS12, and of the run with a configuration."""
    (folder / "encoder").mkdir(parents=True)
    tasks = {
        task: record(task, test, dev=test + 1, files="x", **changes)
        for task, test in zip(("CR", "MRPC", "STS12"), tests, strict=False)
    }
    write_json(folder / "senteval.json", results(name, tasks).to_dict())
    if run is not None:
        (folder / "config.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    return folder


def test_cells_of_printed_rows_by_hand() -> None:
    declutr, gensen = paper_rows("declutr", "test"), paper_rows("gensen", "test")
    glove = declutr.loc[("GloVe", "bag_of_words")]
    assert glove["SICKRelatedness.spearman"] == 72.3 and glove["STS13.spearman.mean"] == 51.24
    assert glove["declutr_downstream"] == 65.47 and glove["probing"] == 62.42  # of two tables
    assert gensen.loc[("Infersent (AllNLI)", "transfer"), "SICKRelatedness.pearson"] == 88.4
    assert gensen.loc[("m-CNN", "from_scratch"), f"{COCO}.recalls.caption_r1"] == 38.3
    assert paper_rows("declutr_v1", "dev").loc["BERT-base"]["probing_dev"].nunique() == 2  # before and after


def test_an_average_is_over_the_tasks_of_all_evaluated_rows() -> None:
    full = {"CR.test": 80.0, "MR.test": 70.0, "TREC.test": 90.0}
    partly = {**full, "CR.test": 60.0, "TREC.test": None}
    values, printed, label = select("declutr_downstream", full, partly, {"recall@1": 5.0})
    assert values[:2] == [75, 65] and pd.isna(values[2]) and "2 of 17" in label
    assert printed["GloVe"] == pytest.approx((78.78 + 77.70) / 2)


def test_scores_on_other_data_never_stand_beside_printed_ones() -> None:
    full = {"CR.test": 80.0, "MR.test": 70.0, "CR.comparable": True}
    for metric in ("CR.test", "declutr_downstream"):
        values, printed, label = select(metric, full, {**full, "CR.comparable": False})
        assert pd.notna(values).all() and printed.isna().all() and "not comparable" in label
        assert select(metric, full)[1].notna().any()


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_equal_those_of_single_results(name: str) -> None:
    result = results(tasks={task: record(task, 50.0 + place) for place, task in enumerate(SENTEVAL)})
    assert select(name, flat_scores(result.tasks))[0] == pytest.approx([result.averages[name]])


def test_printed_averages_count_where_ours_are_whole() -> None:
    full = flat_scores(records())
    assert select("declutr_downstream", full)[1]["GloVe"] == 65.47
    without = {key: value for key, value in full.items() if COCO not in key}
    _, printed, label = select("declutr_downstream", without)
    assert "16 of 17" in label
    assert printed[["GloVe", "fastText"]].round(2).tolist() == [69.54, 72.82]  # README of the tables


def test_results_are_read_as_a_frame(tmp_path: Path) -> None:
    for seed in (7, 3):
        write(tmp_path / f"a{seed}", f"a{seed}", 80.0 + seed, run={"seed": seed, "threads": seed})
    write(tmp_path / "b=1", "other", 60.0)
    frame = read_frame([f"D={tmp_path}/a*", f"B={tmp_path}/b?1", str(tmp_path / "b=1")])
    index = [("D", "default", 3), ("D", "default", 7), ("B", "default", 1), ("other", "default", 1)]
    assert [*frame.index] == index
    assert frame["CR"]["test"].tolist() == [83, 87, 60, 60] and ("CR", "comparable") in frame


def test_means_over_seeds_have_intervals() -> None:
    index = pd.MultiIndex.from_tuples(
        [("a", "p", 1), ("a", "p", 2), ("a", "p", 3), ("b", "p", 1)], names=["model", "protocol", "seed"]
    )
    frame = pd.DataFrame({"x": [80.0, 83, 86, 70], "y": [1, None, 1, 1.0]}, index)
    means, halves = average_seeds(frame)
    assert means["x"].tolist() == [83, 70] and halves.loc[("a", "p"), "x"] == pytest.approx(4.302653 * 3 / 3**0.5)
    assert means["y"].isna().tolist() == [True, False] and pd.isna(halves.loc[("b", "p"), "x"])


def test_commands_print_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, test in enumerate((80.0, 83.0, 86.0)):
        write(tmp_path / f"a{number}", "a", test, 70.0, run={"seed": number})
        write(tmp_path / f"b{number}", "b", test - 1 - number, 60.0, n_train=9)
    ours, both = [f"{tmp_path}/a*"], [f"{tmp_path}/a*", f"{tmp_path}/b*"]

    def printed(**keys: Any) -> str:
        report_table(**{"results": both, **keys})
        return capsys.readouterr().out

    assert "83.00 ± 7.45" in printed() and "a,default,83.00,7.45" in printed(tasks=["CR"], format="csv")
    assert "a,default,84.00,7.45" in printed(tasks=["CR"], split="dev", format="csv")
    with pytest.raises(UserError, match="none has these scores"):
        printed(tasks=["MR"])
    table = printed(paper="gensen", results=ours, format="csv")
    assert "CR,MRPC.accuracy,MRPC.f1" in table and 'Infersent (AllNLI),"gensen, transfer",86.30,' in table
    half = 4.302653 / 3**0.5  # differences 1, 2 and 3
    row = f"a,default,CR.test,83.00,81.00,2.00,{2 - half:.2f},{2 + half:.2f}"
    assert row in printed(against="b", tasks=["CR"], format="csv")
