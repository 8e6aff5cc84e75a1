"""Run folders are read and listed: finished, unfinished and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.runs import comparable, read_run, read_runs
from tests.analysis.runs_on_disk import START, TRAINED, write


def test_a_finished_run_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "senteval.json").write_text(json.dumps({"tasks": {"CR": {}}, "averages": {"mean (1 of 17)": 65}}))
    run = read_run(folder)
    assert (run["state"], run["objective"], run["encoder"]) == ("finished", "declutr", "roberta-base")
    assert (run["steps"], run["tokens"], run["weights"], run["seed"]) == (60, 150_000, "random", 1)
    assert run["start"] == START and run["trained"] == TRAINED
    row = read_runs(folder).iloc[0]
    assert (row["recall@1"], row["start.recall@1"], row["senteval"]) == (14.5, 3, 65)
    assert row["names.corpus"] == "pydocs" and row["weights"] == "random"


def test_an_unfinished_run_is_read_though_its_last_line_is_cut(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", finished=False)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    run = read_run(folder)
    assert (run["state"], run["steps"], run["trained"]) == ("unfinished", 60, {})


def test_a_damaged_run_is_listed(tmp_path: Path) -> None:
    write(tmp_path / "a")
    (write(tmp_path / "b") / "metrics.jsonl").write_text('{"step": 1\n{"step": 2, "loss": 1}\n')
    assert read_runs(tmp_path)["state"].tolist() == ["finished", "damaged"]


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write(tmp_path / "a", finished=False)
    (tmp_path / "pictures").mkdir()
    assert read_runs(tmp_path)["run"].tolist() == ["a", "b"]
    assert read_runs(tmp_path / "b", tmp_path / "a")["state"].tolist() == ["finished", "unfinished"]


def test_runs_that_differ_in_their_machine_are_comparable() -> None:
    config = {"seed": 1, "optimizer": {"lr": 0.1}}
    assert comparable(config | {"device": "cpu", "names": {}}) == comparable(config | {"device": "cuda"}) == config
