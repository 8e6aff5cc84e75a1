"""The picture of a run: its files, their numbers, and missing parts."""

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
    folder = write(tmp_path / "run")
    frame = numbers(folder)
    for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        for key in line.keys() - {"step"}:
            assert frame.loc[line["step"], key] == pytest.approx(line[key])
    assert frame.loc[20, "tokens_per_second"] == 9020


def test_parts_that_alternate_are_drawn(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", parts=(), steps=1, finished=False)
    lines = [{"step": step, "loss": 2.0, ("nli" if step % 2 else "french"): 2.0} for step in range(1, 9)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "timings.jsonl").unlink()
    assert numbers(folder)["nli"].dropna().index.tolist() == [1, 3, 5, 7]


SIX = tuple(f"{name}{end}" for name in "DPIRNC" for end in ("", "_accuracy"))


@pytest.mark.parametrize("parts", [(), ("nli",), SIX])
def test_any_number_of_loss_parts_is_drawn(tmp_path: Path, parts: tuple[str, ...]) -> None:
    assert {"loss", *parts} <= {*numbers(write(tmp_path / "run", parts=parts, steps=1))}
