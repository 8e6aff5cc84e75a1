"""Run folders: one run each, one process at a time; journals that can be cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from data.errors import UserError
from data.files import read_yaml
from experiments.run_folder import Journal, environment, open_run_folder, write_config
from tests.encoders.models import tiny

NAMES = {"objective": "contrastive_only", "encoder": "distilroberta-base", "corpus": "openwebtext"}


def configuration(path: Path | None, resume: str | None = None) -> dict[str, Any]:
    run_dir = None if path is None else str(path)
    return {"run_dir": run_dir, "resume": resume, "names": NAMES, "seed": 1, "budget": {"steps": 3}}


def test_new_runs_get_short_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_run_folder(configuration(None)) as first, open_run_folder(configuration(None)) as second:
        assert first != second
        assert first.parent == Path("runs")
        assert first.name.startswith("contrast-distilro-openwebt-1-") and len(first.name) <= 45
    assert list(tmp_path.iterdir()) == []  # nothing was written into them


def test_only_the_first_process_of_a_launcher_opens_and_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_run_folder(configuration(None)) as path:
        assert path.is_dir() and capsys.readouterr().out.split() == ["run", str(path)]
    monkeypatch.setenv("RANK", "1")
    with open_run_folder(configuration(None)) as path:
        assert not path.exists() and capsys.readouterr().out == ""


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    values = configuration(tmp_path / "run")
    with open_run_folder(values), pytest.raises(UserError), open_run_folder(values):
        pass
    with open_run_folder(values):
        pass


def test_a_folder_with_a_run_is_opened_only_to_resume_it(tmp_path: Path) -> None:
    values = configuration(tmp_path / "run")
    with open_run_folder(values) as path:
        write_config(path, values)
    assert read_yaml(path / "config.yaml") == values
    with pytest.raises(UserError, match="resume="), open_run_folder(values):
        pass
    with open_run_folder(configuration(path, resume=str(path))):
        pass


@pytest.mark.parametrize("name", ["file", "file/run", "full"])
def test_files_and_full_folders_are_refused_and_left_as_they_are(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(UserError), open_run_folder(configuration(tmp_path / name)):
        pass
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "notes.txt"]


def test_a_journal_is_valid_json_for_infinite_values(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.write([{"step": 1, "gradient_norm": float("inf"), "loss": 0.5}])
    assert journal.path.read_text() == '{"step": 1, "gradient_norm": null, "loss": 0.5}\n'


def test_a_journal_is_cut_after_a_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    journal = Journal(path)
    journal.write([{"step": step} for step in range(4)])
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    journal = Journal(path, until=2)
    journal.write([{"step": 3}])
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]
    Journal(path)
    assert path.read_text() == ""


def test_the_environment_has_packages_threads_and_packing() -> None:
    accelerator, encoder = Accelerator(cpu=True), tiny()
    facts = environment(accelerator, encoder)
    assert facts["packages"]["torch"] == torch.__version__ and facts["threads"] == torch.get_num_threads()
    assert (facts["packing"], facts["device"]) == (False, "cpu") and "CUDA" in facts["padded_because"]
    encoder.packing.forced = True
    facts = environment(accelerator, encoder)
    assert (facts["packing"], facts["padded_because"]) == (True, None)
