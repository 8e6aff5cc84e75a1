"""Sweeps: how jobs ended comes back, and what is told of those that ran elsewhere."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest

from experiments import compose
from experiments.overrides import CONFIGS
from experiments.sweeps import Failure, Swept, run_sweep, told_elsewhere
from tests.experiments import tiny
from tests.experiments.test_command import command


def test_a_failure_elsewhere_is_told_with_what_was_asked_of_that_job_alone() -> None:
    other = os.getpid() + 1
    done = [
        Swept(["corpus=text", "seed=1"], None),
        Swept(["corpus=text", "seed=2"], Failure(other, "It broke.")),
        Swept(["corpus=text", "seed=3"], Failure(os.getpid(), "Told already.")),
    ]
    assert told_elsewhere(done) == ["seed=2: It broke."]
    assert told_elsewhere([]) == []


def test_the_end_of_a_command_can_be_sent_to_another_process() -> None:
    end = pickle.loads(pickle.dumps(compose.Ended(2, "It broke.")))
    assert isinstance(end, compose.Ended)
    assert (end.code, end.line) == (2, "It broke.")


def test_jobs_return_a_value_or_their_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failure = Failure(1, "It broke.")
    done = run_sweep(CONFIGS, "run", lambda config: failure if config.seed == 2 else config.seed, ["seed=1,2"])
    assert done == [Swept(["seed=1"], None, 1), Swept(["seed=2"], failure, None)]


def test_what_jobs_in_other_processes_returned_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = [Swept(["seed=1"], None, "a"), Swept(["seed=2"], Failure(1, "It broke.")), Swept(["seed=3"], None, "b")]
    monkeypatch.setattr(compose, "run_sweep", lambda *_: done)
    monkeypatch.setattr(compose, "check_all", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["run.py", "-m", "seed=1,2,3"])
    reported: list[str] = []
    with pytest.raises(SystemExit) as end:
        compose.command(report=reported.extend)(print)()
    assert (end.value.code, reported, capsys.readouterr().err) == (2, ["a", "b"], "seed=2: It broke.\n")


def test_a_launcher_that_is_not_installed_is_told_so(tmp_path: Path) -> None:
    found = command(tmp_path, "-m", "hydra/launcher=nowhere", "seed=1,2")
    assert found.returncode == 2
    assert found.stderr == (
        "hydra/launcher=nowhere: no such launcher is installed; pip install -e '.[sweeps]' brings joblib and "
        "submitit, and docs/at-scale.md says where Ray's is from.\n"
    )


def test_a_sweep_ends_with_its_runs_and_their_means(tmp_path: Path) -> None:
    found = command(tmp_path, "-m", *tiny.overrides(tmp_path, "budget.steps=1", "seed=1,2"))
    assert found.returncode == 0, found.stderr
    listed, means = found.stdout.partition("2 runs")[2].split("mean ± ")
    names = sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert len(names) == 2 and all(name in listed for name in names)
    assert all("-weights-random-vocab_size-320-" in name for name in names)  # what is special about them
    assert "declutr roberta-mini text teaching" in means
