"""Run folders: one run each, one process at a time; journals that can be cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from data.errors import UserError
from experiments.run_folder import Journal, RunFolder, environment


def test_runs_of_one_second_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [RunFolder(None, name="a-b-c-1") for _ in range(3)]
    assert len({folder.path for folder in folders}) == 3
    assert all(folder.path.parts[0] == "runs" and folder.path.name.startswith("a-b-c-1-") for folder in folders)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    held = RunFolder(tmp_path / "run", name="x")
    with pytest.raises(UserError, match="is in use by another process"):
        RunFolder(tmp_path / "run", name="x")
    held.close()
    RunFolder(tmp_path / "run", name="x").close()


def test_a_folder_with_a_run_is_refused_unless_resumed(tmp_path: Path) -> None:
    held = RunFolder(tmp_path, name="x")
    held.describe({"seed": 1}, {})
    held.close()
    with pytest.raises(UserError, match="holds a run already: resume="):
        RunFolder(tmp_path, name="x")
    RunFolder(tmp_path, name="x", resume=True).close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\): run_dir=<folder> names another"):
        RunFolder(tmp_path / "file" / "run", name="x")


def test_a_folder_in_which_nothing_began_vanishes(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", name="x").close()
    assert not (tmp_path / "run").exists()


def test_a_journal_is_cut_after_a_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    journal = Journal(path)
    for step in range(4):
        journal.add({"step": step})
    journal.flush()
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    journal = Journal(path, until=2)
    journal.add({"step": 3})
    journal.flush()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]
    Journal(path)
    assert path.read_text() == ""


def test_environment_says_what_a_number_depends_on() -> None:
    found = environment(torch.device("cpu"), "no", 1)
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
