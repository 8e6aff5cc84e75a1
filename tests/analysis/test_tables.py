"""Formats of tables for files: missing values, escapes, levels of the index."""

from __future__ import annotations

import pandas as pd

from analysis.tables import render

FRAME = pd.DataFrame(
    {"CR": [80.0, 71.234], "MRPC.f1": [float("nan"), 3.0], "note": ["u|v\x1b[31m", "=1"]},
    index=pd.MultiIndex.from_tuples([("a_1", 1), ("b", 2)], names=["model", "seed"]),
)


def test_csv_has_neither_title_nor_notes() -> None:
    lines = render(FRAME, "csv", title="T", notes=["n"]).split("\n")
    assert lines == ["model,seed,CR,MRPC.f1,note", r"a_1,1,80.00,,u|v\x1b[31m", "b,2,71.23,3.00,=1"]


def test_markdown_cells_stay_cells() -> None:
    title, _, head, rule, *rows = render(FRAME, "markdown", title="T", notes=["n*"], decimals=1).split("\n")
    assert title == "**T**" and head == "| model | seed | CR | MRPC.f1 | note |"
    assert rule == "| :-- | :-- | --: | --: | --: |"
    assert rows == [r"| a\_1 | 1 | 80.0 | – | u\|v\\x1b\[31m |", "| b | 2 | 71.2 | 3.0 | =1 |", "", r"n\*"]


def test_latex_is_escaped() -> None:
    lines = render(FRAME, "latex", title="T", notes=["n"]).split("\n")
    assert lines[0] == r"\begin{tabular}{llrrr}" and lines[-1] == r"\end{tabular}"
    assert any(line.startswith(r"a\_1 & 1 & 80.00 & – &") for line in lines)
