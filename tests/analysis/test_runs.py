"""Run folders are read and listed, finished or not; a damaged one is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.runs import comparable, overview, read_lines, read_run, read_runs
from data.errors import UserError
from tests.analysis.runs_on_disk import START, TRAINED, write


def test_a_finished_run_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "senteval.json").write_text(json.dumps({"tasks": {"CR": {}}, "averages": {"mean (1 of 17)": 65}}))
    overrides = ["objective=declutr", "optimizer.lr=0.1"]
    (folder / "environment.json").write_text(json.dumps({"overrides": overrides}))
    run = read_run(folder)
    assert (run["state"], run["objective"], run["encoder"]) == ("finished", "declutr", "roberta-base")
    assert (run["steps"], run["tokens"], run["weights"], run["seed"]) == (60, 150_000, "random", 1)
    assert run["start"] == START and run["trained"] == TRAINED
    assert run["environment"]["overrides"] == overrides
    row = read_runs(folder).iloc[0]
    assert (row["recall@1"], row["start.recall@1"], row["senteval"]) == (14.5, 3, 65)
    assert row["names.corpus"] == "pydocs" and row["weights"] == "random"


def test_an_unfinished_run_is_read_though_its_last_line_is_cut(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", finished=False)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    run = read_run(folder)
    assert (run["state"], run["steps"], run["trained"]) == ("unfinished", 60, {})


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.yaml", "a: [1"),
        ("config.yaml", "- 1"),
        ("config.yaml", "{seed: one}"),
        ("config.yaml", "!!python/object/apply:os.getcwd []"),
        ("metrics.jsonl", '{"step": 1\n{"step": 2, "loss": 1}\n'),
        ("metrics.jsonl", "3\n"),
        ("quick.json", "{"),
        ("quick.json", "[1]"),
        ("quick.json", "[" * 100_000),
        ("senteval.json", '{"averages": 1}'),
        ("environment.json", "3"),
    ],
)
def test_a_damaged_run_is_named(tmp_path: Path, file: str, content: str) -> None:
    (write(tmp_path / "runs" / "broken") / file).write_text(content)
    with pytest.raises(UserError) as caught:
        read_runs(tmp_path / "runs")
    assert "broken" in caught.value.key


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write(tmp_path / "a", finished=False)
    (tmp_path / "pictures").mkdir()
    assert read_runs(tmp_path)["run"].tolist() == ["a", "b"]
    assert read_runs(tmp_path / "b", tmp_path / "a")["state"].tolist() == ["finished", "unfinished"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_runs(tmp_path / "none")
    assert caught.value.key == str(tmp_path / "none")


def test_an_overview_fits_a_terminal(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"declutr-bundled-pydocs-{number}-20261128-114500", steps=4000)
    lines = overview(read_runs(tmp_path)).splitlines()
    assert len(lines) == 4 and max(map(len, lines)) <= 80 and "14.5" in lines[1]


def test_lines_of_a_journal(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none") == []
    (tmp_path / "journal").write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_lines(tmp_path / "journal") == [{"step": 1}, {"step": 2}]


def test_runs_that_differ_in_their_machine_are_comparable() -> None:
    config = {"seed": 1, "optimizer": {"lr": 0.1}}
    assert comparable(config | {"device": "cpu", "names": {}}) == comparable(config | {"device": "cuda"}) == config
