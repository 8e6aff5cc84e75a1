"""``runs.py``: selection, order, formats, and mistakes on the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import yaml

from tests.analysis.runs_on_disk import write
from tests.command_runner import run_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, name in enumerate("abc"):
        path = write(tmp_path / "runs" / name, steps=10 * (place + 1)) / "config.yaml"
        config = yaml.safe_load(path.read_text()) | {"seed": place, "optimizer": {"lr": 10.0**-place}}
        path.write_text(yaml.safe_dump(config))
    return tmp_path


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
def test_runs_are_selected_and_sorted(folder: Path, arguments: list[str], names: str) -> None:
    shown = run_command("experiments.runs", *arguments, "format=csv", folder=folder).output
    rows = [*csv.DictReader(io.StringIO(shown))]
    assert "".join(row["run"] for row in rows) == names
    assert all(row["optimizer.lr"] and row["start.recall@1"] == "3.0" for row in rows)


def test_formats(folder: Path) -> None:
    text = run_command("experiments.runs", folder=folder).output
    assert max(map(len, text.splitlines())) <= 80 and "14.5" in text and "senteval" not in text
    assert text.split()[:3] == ["run", "state", "steps"]
    assert run_command("experiments.runs", "where=seed > 5", folder=folder).output == "No run.\n"


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("sortt=loss", "sortt"),
        ("where=seed =", "where"),
        ("where=seed=1", "where"),
        ("where=seed", "where"),
        ("where=optimizer.lr < 1", "where"),
        ("where=@seed > 1", "where"),
        ("where=__import__('os').getcwd()", "where"),
        ("sort=lr", "sort=lr"),
        ("format=pdf", "format=pdf"),
        ("nowhere", "nowhere"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, argument: str, key: str) -> None:
    outcome = run_command("experiments.runs", argument, folder=folder)
    assert outcome.refused() and outcome.error.startswith(f"{key}: ")
