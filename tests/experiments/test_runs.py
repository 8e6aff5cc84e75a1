"""``runs.py``: selection, order, formats, and mistakes on the command line."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest
import yaml

from experiments import runs
from tests.analysis.runs_on_disk import write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for place, name in enumerate("abc"):
        path = write(tmp_path / "runs" / name, steps=10 * (place + 1)) / "config.yaml"
        config = yaml.safe_load(path.read_text()) | {"seed": place, "optimizer": {"lr": 10.0**-place}}
        path.write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["runs.py", *arguments])
    runs.main()
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], "abc"),
        (["sort=-steps"], "cba"),
        (["runs", "sort=optimizer.lr"], "cba"),
        (["where=seed >= 1 and objective == 'declutr'"], "bc"),
        (["where=`optimizer.lr` < 0.5", "sort=-seed"], "cb"),
        (["where=`recall@1` > 99"], ""),
        (["--sort=-run"], "cba"),
    ],
)
def test_runs_are_selected_and_sorted(
    folder: Path,
    arguments: list[str],
    names: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = call(monkeypatch, capsys, *arguments, "format=csv")
    rows = [*csv.DictReader(io.StringIO(shown))]
    assert "".join(row["run"] for row in rows) == names
    assert all(row["optimizer.lr"] and row["start.recall@1"] == "3.0" for row in rows)


def test_formats(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(monkeypatch, capsys)
    assert max(map(len, text.splitlines())) <= 80 and "14.5" in text and "senteval" not in text
    assert text.split()[:3] == ["run", "state", "steps"]
    assert call(monkeypatch, capsys, "where=seed > 5") == "No run.\n"


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("sortt=loss", "sortt"),
        ("where=seed =", "where"),
        ("where=seed=1", "where"),
        ("where=sed == 1", "where"),
        ("where=loss", "where"),
        ("where=seed", "where"),
        ("where=optimizer.lr < 1", "where"),
        ("where=@seed > 1", "where"),
        ("where=__import__('os').getcwd()", "where"),
        ("sort=lr", "sort"),
        ("format=pdf", "format"),
        ("nowhere", "nowhere"),
        ("folder=nowhere", "nowhere"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path, argument: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        call(monkeypatch, capsys, argument)
    line = capsys.readouterr().err
    assert end.value.code == 2 and line.startswith(f"{key}: ") and line.count("\n") == 1


def test_equality_is_written_as_in_python(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call(monkeypatch, capsys, "where=objective = 'declutr'")
    assert "==" in capsys.readouterr().err


def test_help_is_its_description(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "where" in call(monkeypatch, capsys, "-h")
