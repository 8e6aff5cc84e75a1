"""Score tables in every format, and results as JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from analysis.reporting.printed import Cell
from analysis.reporting.rendering import (
    Grid,
    Row,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    rich_table,
    score_cell,
    write_result,
)
from data.errors import UserError

CR, F1 = ("CR", "test"), ("MRPC", "f1")


GRID = Grid(
    "SentEval, test",
    [CR, F1, ("STS12", "spearman.mean"), ("", "probing (9 of 10)")],
    [
        Row("a_1 & |b|", {CR: Cell(80.004, "80.00"), F1: Cell(70, "70.00")}, protocol="default"),
        Row(
            "[red]",
            {CR: Cell(80.001, "80.00"), F1: Cell(69, "69.00"), ("", "probing (9 of 10)"): Cell(5, "5.00")},
            protocol="default",
        ),
    ],
    [Row("GloVe", {CR: Cell(80, "80.0")}, "declutr", "default")],
    ["100 % of *it*"],
)


def test_best_scores_of_own_models_include_ties() -> None:
    assert [GRID.is_best(row, CR) for row in GRID.ours + GRID.printed] == [True, True, False]
    assert [GRID.is_best(row, F1) for row in GRID.ours] == [True, False]
    assert not GRID.is_best(GRID.ours[1], ("", "probing (9 of 10)"))  # the only score of its column


def test_markdown_output() -> None:
    assert as_markdown(GRID).split("\n") == [
        "| model | CR | MRPC F1 | STS12 mean Spearman | mean of 9 of the 10 probing tasks |",
        "| :-- | --: | --: | --: | --: |",
        "| a\\_1 & \\|b\\| | **80.00** | **70.00** | – | – |",
        "| \\[red\\] | **80.00** | 69.00 | – | 5.00 |",
        "| declutr: GloVe | 80.0 | – | – | – |",
        "",
        "100 % of \\*it\\*",
    ]


def test_csv_output() -> None:
    assert list(csv.reader(io.StringIO(as_csv(GRID)))) == [
        ["model", "source", "protocol", "CR", "MRPC.f1", "STS12.spearman.mean", "probing (9 of 10)"],
        ["a_1 & |b|", "ours", "default", "80.00", "70.00", "", ""],
        ["[red]", "ours", "default", "80.00", "69.00", "", "5.00"],
        ["GloVe", "declutr", "default", "80.0", "", "", ""],
    ]


def test_latex_output() -> None:
    assert as_latex(GRID).split("\n") == [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"model & CR & MRPC F1 & STS12 mean Spearman & mean of 9 of the 10 probing tasks \\",
        r"\midrule",
        r"a\_1 \& |b| & \textbf{80.00} & \textbf{70.00} & -- & -- \\",
        r"[red] & \textbf{80.00} & 69.00 & -- & 5.00 \\",
        r"\midrule",
        r"declutr: GloVe & 80.0 & -- & -- & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip",
        r"{\footnotesize 100 \% of *it* \par}",
    ]


def test_rows_of_a_paper_without_scores_in_a_part_are_left_out() -> None:
    columns = [("", f"column {number}") for number in range(20)]
    own = Row("own", {key: score_cell(1.0) for key in columns})
    printed = [
        Row(name, {key: score_cell(2.0)}, "gensen") for name, key in (("first", columns[0]), ("last", columns[-1]))
    ]
    shown = as_text(Grid("title", columns, [own], printed), width=60)
    assert shown.count("own") > 2
    assert shown.count("gensen: first") == shown.count("gensen: last") == 1


def test_best_scores_are_bold_in_the_terminal() -> None:
    console = Console(force_terminal=True, width=100, color_system="standard", file=io.StringIO())
    with console.capture() as capture:
        console.print(rich_table(GRID, 100))
    assert capture.get().count("\x1b[1m80.00") == 2 and "[red]" in capture.get()


def test_results_are_written_atomically(tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.json"
    write_result(str(out), {"a": 1})
    assert json.loads(out.read_text()) == {"a": 1} and [path.name for path in out.parent.iterdir()] == ["x.json"]
    write_result(None, {"a": 1})
    with pytest.raises(UserError, match="cannot be written"):
        write_result(str(out / "below"), {})
