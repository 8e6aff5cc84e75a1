"""The picture of a run: its files and their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis import run_figure
from tests.analysis.runs_on_disk import write


def numbers(folder: Path) -> pd.DataFrame:
    paths = run_figure.draw(folder)
    assert [path.name for path in paths] == ["training.pdf", "training.png", "training.csv"]
    assert all(path.parent == folder / "figures" and path.stat().st_size > 50 for path in paths)
    return pd.read_csv(paths[2], index_col="step")


def test_the_csv_has_the_runs_numbers(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", parts=tuple(f"{name}{end}" for name in "DPIRNC" for end in ("", "_accuracy")))
    frame = numbers(folder)
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        for key in line.keys() - {"step"}:
            assert frame.loc[line["step"], key] == pytest.approx(line[key])
    assert frame.loc[20, "tokens_per_second"] == 9020
