"""Tables printed in the papers, read under this suite's names of tasks and metrics."""

from __future__ import annotations

import pytest

from analysis.reporting.printed import FOLDER, PrintedRow, paper_rows, printed, read_table
from tests.analysis.senteval.example_results import SENTEVAL


def row(rows: tuple[PrintedRow, ...] | list[PrintedRow], model: str) -> PrintedRow:
    [found] = [row for row in rows if row.model == model]
    return found


def test_cells_of_a_printed_row_by_hand() -> None:
    glove = row(printed("declutr_table2_downstream"), "GloVe")
    assert (glove.paper, glove.group) == ("declutr", "bag_of_words")
    assert glove.cells["SICKRelatedness", "spearman"] == (72.30, "72.30")
    assert glove.cells["STS13", "spearman.mean"].value == 51.24
    assert glove.cells["ImageCaptionRetrieval", "test"].text == "0.40"
    assert glove.cells["", "declutr_downstream"].text == "65.47"
    assert glove.score("MRPC", "accuracy+f1") == pytest.approx((73.39 + 81.45) / 2)


def test_metrics_follow_the_paper() -> None:
    assert row(printed("conssent_table2"), "InferSent").cells["STSBenchmark", "pearson"].text == "75.8"
    gensen = row(printed("gensen_table2"), "Infersent (AllNLI)")
    assert gensen.cells["SICKRelatedness", "pearson"].text == "88.4"
    assert gensen.cells["SICKRelatedness", "pearson"].value == pytest.approx(88.4)
    assert gensen.cells["STSBenchmark", "spearman"].text == "75.5"
    assert row(printed("gensen_table7"), "Infersent").cells["STS16", "pearson.mean"].text == "71.4"
    assert row(printed("gensen_table6"), "m-CNN").cells == {
        ("ImageCaptionRetrieval", "recalls.caption_r1"): (38.3, "38.3"),
        ("ImageCaptionRetrieval", "recalls.caption_r10"): (81.0, "81.0"),
        ("ImageCaptionRetrieval", "recalls.image_r1"): (27.4, "27.4"),
        ("ImageCaptionRetrieval", "recalls.image_r10"): (79.5, "79.5"),
    }


def test_empty_cells_are_left_out() -> None:
    quick_thoughts = row(printed("declutr_table2_downstream"), "QuickThoughts")
    assert ("SST5", "test") not in quick_thoughts.cells and quick_thoughts.score("SST5", "test") is None
    assert quick_thoughts.score("MRPC", "accuracy+f1") == pytest.approx(80.45)
    assert row(printed("conssent_table2"), "QuickThoughts").score("SICKRelatedness", "pearson") == 87.4


def test_every_task_and_every_cell_is_read() -> None:
    """Every cell of the CSVs is read exactly once, except descriptions of the model and DeCLUTR's delta."""
    for table in ("declutr_table2_downstream", "declutr_table3_probing", "conssent_table2", "gensen_table2"):
        for line, printed_row in zip(read_table(table), printed(table), strict=True):
            filled = [text for name, text in line.items() if text and name not in ("model", "group")]
            left_out = 1 if table.startswith("declutr_table2") and line["delta"] else 0
            assert len(printed_row.cells) == len(filled) - left_out
    tasks = {task for row in paper_rows("declutr", "test") for task, _ in row.cells if task}
    assert tasks == set(SENTEVAL)


def test_rows_of_a_paper_are_joined() -> None:
    rows = paper_rows("declutr", "test")
    base = row(rows, "DeCLUTR-base")
    assert base.cells["", "declutr_downstream"].text == "79.10" and base.cells["", "probing"].text == "74.65"
    assert len(rows) == 10
    use = row(paper_rows("declutr_v1", "test"), "USE")
    assert use.cells["", "declutr_v1_all"].text == "72.91" and use.cells["SNLI", "test"].text == "83.25"
    assert row(paper_rows("declutr", "dev"), "BERT-base-CLS").cells == {
        ("", "declutr_downstream_dev"): (63.53, "63.53"),
        ("", "probing_dev"): (69.57, "69.57"),
    }
    before, after = (found for found in paper_rows("declutr_v1", "dev") if found.model == "BERT-base")
    assert (before.group, after.group) == ("before_fine_tuning", "after_fine_tuning")
    assert paper_rows("conssent", "dev") == []


def test_joining_does_not_change_the_tables() -> None:
    paper_rows("declutr", "test")
    assert ("", "probing") not in row(printed("declutr_table2_downstream"), "GloVe").cells


def test_other_tables_are_read_as_rows_of_text() -> None:
    assert read_table("gensen_table1")[0] == {"task": "En-Fr (WMT14)", "sentence_pairs": "40M"}
    assert len(list(FOLDER.glob("*.csv"))) == 20
