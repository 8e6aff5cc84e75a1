"""``runs.py`` lists runs: its options, and mistakes on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments import runs
from tests.analysis.runs_on_disk import write


def test_a_folder_is_listed_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        write(tmp_path / "k=1" / name)
    monkeypatch.setattr(sys, "argv", ["runs.py", str(tmp_path / "k=1"), "sort=-run", "where=run!=b"])
    runs.main()
    shown = capsys.readouterr().out
    assert "2 runs" in shown and shown.index("│ c ") < shown.index("│ a ") and "│ b " not in shown


def test_a_selection_without_runs_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        write(tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["runs.py", str(tmp_path), "where=run=c,state=finished"])
    runs.main()
    shown = "where=run=c,state=finished selects none of 2 runs: run is a, b; state is finished.\n"
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("sortt=loss", "sortt=loss: no such option or folder. Did you mean sort=loss?"),
        ("wher=seed=1", "wher=seed=1: no such option or folder. Did you mean where=seed=1?"),
        ("runs=.", "runs=.: no such option or folder. Did you mean folder=.?"),
        ("encoder=gru", "encoder=gru: no such option or folder. Did you mean where=encoder=gru?"),
        ("--sort loss", "--sort loss: write sort=loss."),
        ("nowhere", "There is no folder nowhere: name the folder that holds the run folders (such as runs)."),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["runs.py", *arguments.split()])
    with pytest.raises(SystemExit) as end:
        runs.main()
    assert (end.value.code, capsys.readouterr().err) == (2, f"{line}\n")


def test_help_is_its_description(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["runs.py", "-h"])
    runs.main()
    assert capsys.readouterr().out.startswith("Lists the runs under a folder")
