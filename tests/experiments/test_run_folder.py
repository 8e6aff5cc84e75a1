"""Run folders: one run each, one process at a time; journals that can be cut."""

from __future__ import annotations

import errno
import fcntl
import json
from pathlib import Path

import pytest
import torch

from data.errors import UserError
from experiments.run_folder import Journal, RunFolder, environment, packing
from tests.encoders.models import tiny


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


def test_a_file_system_without_locks_is_not_reported_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match=r"cannot be written \(No locks available\): run_dir="):
        RunFolder(tmp_path / "run", name="x")


def test_a_folder_with_a_run_is_refused_unless_resumed(tmp_path: Path) -> None:
    held = RunFolder(tmp_path, name="x")
    held.describe({"seed": 1}, {})
    (tmp_path / "timings.jsonl").write_text('{"step": 1}\n')
    held.close()
    with pytest.raises(UserError, match="holds a run already: resume="):
        RunFolder(tmp_path, name="x")
    RunFolder(tmp_path, name="x", resume=True).close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\): run_dir=<folder> names another"):
        RunFolder(tmp_path / "file" / "run", name="x")
    with pytest.raises(UserError, match=r"file is a file, not a folder: run_dir=<folder> names another\.$"):
        RunFolder(tmp_path / "file", name="x")


@pytest.mark.parametrize("path", [None, Path("a/b/run")], ids=["default folder", "given folder"])
def test_a_run_without_a_step_leaves_no_folder(
    path: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held = RunFolder(path, name="x")
    held.describe({"seed": 1}, {})
    (held.path / "tokenizer").mkdir()
    (held.path / "tokenizer" / "tokenizer.json").touch()
    for name in ("metrics", "timings"):
        Journal(held.path / f"{name}.jsonl")
    held.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_step_keeps_files_that_were_there_before(tmp_path: Path) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / ".notes").touch()
    held = RunFolder(tmp_path, name="x")
    held.describe({"seed": 1}, {})
    held.close()
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer", ".notes"}


def test_a_folder_with_other_files_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"must be new or empty\. It holds notes\.txt: run_dir="):
        RunFolder(tmp_path, name="x")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_folder_of_a_run_that_took_a_step_is_kept(tmp_path: Path) -> None:
    held = RunFolder(tmp_path / "run", name="x")
    held.describe({"seed": 1}, {})
    (held.path / "timings.jsonl").write_text('{"step": 1}\n')
    held.close()
    assert (tmp_path / "run" / "config.yaml").exists()
    RunFolder(tmp_path / "run", name="x", resume=True).close()
    assert (tmp_path / "run" / "config.yaml").exists()


def test_a_journal_is_valid_json_for_infinite_values(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.add({"step": 1, "gradient_norm": float("inf"), "loss": 0.5})
    journal.flush()
    assert journal.path.read_text() == '{"step": 1, "gradient_norm": null, "loss": 0.5}\n'


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


def test_the_environment_has_packages_and_threads() -> None:
    found = environment(torch.device("cpu"), "no", 1)
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()


def test_packing_is_recorded_with_the_reason_where_there_is_none() -> None:
    encoder = tiny()
    found = packing(encoder, torch.device("cpu"), "fp32")
    assert found == {"packing": False, "padded_because": "rows are packed on CUDA devices only, not on cpu"}
    encoder.force_packing = True
    assert packing(encoder, torch.device("cpu"), "bf16") == {"packing": True, "padded_because": None}
