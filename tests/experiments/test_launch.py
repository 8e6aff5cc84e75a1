"""One command in several processes: their number, interrupts, and what happens when one of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from data.errors import UserError
from experiments import compose, experiment, launch
from tests.experiments import tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """Processes and threads of the runs that ``launch.run`` would begin."""
    begun: list[tuple[int, int | None]] = []
    monkeypatch.setattr(experiment, "run", lambda config: begun.append((config["processes"], config["threads"])))
    monkeypatch.setattr(launch, "_run", lambda config, count: begun.append((count, config["threads"])))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return begun


@pytest.mark.parametrize(
    ("cores", "overrides", "expected"),
    [
        (1, [], (1, None)),
        (2, [], (2, 1)),
        (8, [], (8, 1)),
        (16, [], (8, 2)),
        (6, [], (2, 3)),  # 6 does not divide 16, and 4 processes would leave two cores idle
        (2, ["objective.batch_size=5"], (1, None)),
        (6, ["objective.batch_size=9"], (3, 2)),
        (2, ["objective=conssent_mt", "encoder=bilstm_max"], (2, 1)),
        (8, ["threads=2"], (1, 2)),
        (8, ["processes=1"], (1, None)),
        (8, ["processes=4"], (4, 2)),
        (2, ["processes=4"], (4, 1)),
        (8, ["processes=2", "threads=3"], (2, 3)),
    ],
)
def test_processes_and_threads(
    launched: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    overrides: list[str],
    expected: tuple[int, int],
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    launch.run(compose.check(overrides))
    assert launched == [expected]


def test_a_launcher_decides(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    launch.run(compose.check([]))
    assert launched == [(3, None)]
    with pytest.raises(UserError, match=r"^processes=2: the launcher started 3\. Leave processes= out\.$"):
        launch.run(compose.check(["processes=2"]))


def test_gpus_are_counted(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    launch.run(compose.check([]))
    assert launched == [(1, None)]
    with pytest.raises(UserError, match=r"^processes=2: there are fewer GPUs\."):
        launch.run(compose.check(["processes=2"]))
    launch.run(compose.check(["processes=2", "device=cpu"]))
    assert launched[1][0] == 2


def test_batches_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    found = run(tmp_path, "processes=2", "objective.batch_size=5")
    assert (found.returncode, found.stderr) == (
        2, "objective.batch_size must divide by the 2 processes. Got 5 instead.\n",
    )  # fmt: skip
    assert not (tmp_path / "run").exists()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins a run of two processes in ``tmp_path / "run"`` and waits for its third step."""
    begun: list[subprocess.Popen[str]] = []

    def start(*overrides: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(tmp_path, "processes=2", *overrides),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        begun.append(process)
        end = time.monotonic() + 120
        journal = tmp_path / "run/timings.jsonl"
        while not journal.exists() or len(journal.read_text().splitlines()) < 3:
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.05)
        return process

    yield start
    for process in begun:
        for child in children(process):
            child.kill()
        process.kill()
        process.communicate()


LONG = ("budget.steps=2000", "log_every=1", "dev_every=2000", "checkpoint.every=2000")


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [True, False], ids=["Ctrl-C", "SIGTERM to the command"])
def test_interrupted_it_goes_on_to_the_same_bits(tmp_path: Path, started: Any, to_all: bool) -> None:
    process = started("budget.steps=60", "log_every=1")
    if to_all:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("Stopped after step ") and "resume=" in errors and errors.count("\n") == 1
    resumed = subprocess.run(
        [*command(tmp_path)[:2], f"resume={tmp_path / 'run'}", f"cache={tmp_path / 'cache'}"],
        capture_output=True,
        text=True,
    )
    assert (resumed.returncode, resumed.stderr) == (0, "")
    whole = run(tmp_path, "processes=2", "budget.steps=60", "log_every=1", f"run_dir={tmp_path / 'whole'}")
    assert (whole.returncode, whole.stderr) == (0, "")
    for file in ("metrics.jsonl", "encoder/model.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_in_one_line(started: Any) -> None:
    process = started(*LONG)
    [other] = trainers(process)
    other.kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == (
        "Process 2 of 2 ended (SIGKILL), perhaps for want of memory: processes=1 needs less. A run with a "
        "checkpoint goes on with resume=<its folder>.\n"
    )


@pytest.mark.slow
def test_no_process_outlives_a_killed_command(started: Any) -> None:
    process = started(*LONG)
    there = children(process)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(there, timeout=30)
    assert not alive


def command(folder: Path, *overrides: str) -> list[str]:
    made = tiny.overrides(folder, f"cache={folder / 'cache'}", *overrides)
    place = [] if any(text.startswith("run_dir=") for text in overrides) else [f"run_dir={folder / 'run'}"]
    return [sys.executable, str(ROOT / "experiments/run.py"), *made, *place]


def run(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *overrides), capture_output=True, text=True, timeout=120)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def trainers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [child for child in children(process) if "spawn_main" in " ".join(child.cmdline())]
