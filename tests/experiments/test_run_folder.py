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
from experiments.run_folder import append_lines, cut_journal, environment, open_run_folder, write_config
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


def test_a_folder_in_use_or_with_a_run_is_refused(tmp_path: Path) -> None:
    values = configuration(tmp_path / "run")
    with open_run_folder(values), pytest.raises(UserError), open_run_folder(values):
        pass
    with open_run_folder(values) as path:
        write_config(path, values)
    assert read_yaml(path / "config.yaml") == values
    with pytest.raises(UserError, match="resume="), open_run_folder(values):
        pass
    with open_run_folder(configuration(path, resume=str(path))):
        pass


def test_a_journal_is_cut_after_a_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_lines(path, [{"step": step} for step in range(4)])
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    cut_journal(path, 2)
    append_lines(path, [{"step": 3}])
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]
    cut_journal(path, 0)
    assert path.read_text() == ""


def test_the_environment_has_packages_threads_and_packing() -> None:
    accelerator, encoder = Accelerator(cpu=True), tiny()
    facts = environment(accelerator, encoder)
    assert facts["packages"]["torch"] == torch.__version__ and facts["threads"] == torch.get_num_threads()
    assert (facts["packing"], facts["device"]) == (False, "cpu")
    encoder.packing.forced = True
    facts = environment(accelerator, encoder)
    assert facts["packing"]
