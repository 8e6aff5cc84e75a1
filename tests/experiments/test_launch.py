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
from experiments import experiment, launch
from experiments.interrupts import NOTED, signal_handler
from tests.experiments import tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """Numbers of processes and threads of the runs that ``launch.run`` would start."""
    runs: list[tuple[int, int | None]] = []

    def record(config: dict[str, Any], *_: Any) -> None:
        runs.append((config["processes"], config["threads"]))

    monkeypatch.setattr(experiment, "run", record)
    monkeypatch.setattr(launch, "run_processes", lambda config, *rest: runs.append((rest[-1], config["threads"])))
    for kind in (torch.cuda, torch.backends.mps):
        monkeypatch.setattr(kind, "is_available", lambda: False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return runs


@pytest.mark.parametrize(
    ("cores", "overrides", "expected"),
    [
        (1, "seed=1", (1, 1)),
        (16, "seed=1", (8, 2)),
        (6, "seed=1", (2, 3)),  # 6 does not divide 16, and 4 processes would leave two cores idle
        (2, "objective.batch_size=5", (1, 2)),
        (2, "objective=gensen encoder=gru", (2, 1)),
        (8, "threads=2", (1, 2)),
        (2, "processes=4", (4, 1)),
        (8, "processes=2 threads=3", (2, 3)),
    ],
)
def test_threads_are_divided_among_processes(
    launched: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    overrides: str,
    expected: tuple[int, int],
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    launch.run(tiny.check(overrides.split()), Path())
    assert launched == [expected]


@pytest.mark.parametrize("override", ["processes=16", "processes=3", "device=cuda", "device=mps"])
def test_wrong_processes_and_missing_gpus_are_refused(
    launched: list[Any], override: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    with pytest.raises(UserError) as error:
        launch.run(tiny.check([override]), Path())
    assert error.value.key == override and not launched


def test_an_error_of_one_process_ends_all_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "titles.jsonl"
    path.write_text('{"title": "t"}\n')
    ended = run(tmp_path, "processes=2", f"corpus.path={path}")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith(f"{path}, row 1: ") and "it has title" in ended.stderr


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a run of two processes in ``tmp_path / "run"`` and waits for its third step."""
    processes: list[subprocess.Popen[str]] = []

    def start(*overrides: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(tmp_path, "processes=2", *overrides),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        end = time.monotonic() + 120
        journal = tmp_path / "run/timings.jsonl"
        while not journal.exists() or len(journal.read_text().splitlines()) < 3:
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.05)
        return process

    yield start
    for process in processes:
        for child in children(process):
            child.kill()
        process.kill()
        process.communicate()


LONG = ("budget.steps=2000", "log_every=1", "dev_every=2000", "checkpoint.every=2000")


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [True, False])
def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path: Path, started: Any, to_all: bool) -> None:
    process = started("budget.steps=60", "log_every=1")
    if to_all:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith(f"{NOTED}Stopped after step ") and "resume=" in errors and errors.count("\n") == 2
    resumed = subprocess.run(
        [*command(tmp_path)[:2], f"resume={tmp_path / 'run'}", f"cache={tmp_path / 'cache'}"],
        capture_output=True,
        text=True,
    )
    assert (resumed.returncode, resumed.stderr) == (0, "")
    uninterrupted = run(tmp_path, "processes=2", "budget.steps=60", "log_every=1", f"run_dir={tmp_path / 'whole'}")
    assert (uninterrupted.returncode, uninterrupted.stderr) == (0, "")
    for file in ("metrics.jsonl", "encoder/model.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2000])
def test_a_process_that_is_killed_ends_the_run_in_one_line(tmp_path: Path, started: Any, every: int) -> None:
    process = started(*LONG, f"checkpoint.every={every}")
    trainers(process)[1].kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith("processes: ") and "SIGKILL" in errors and errors.count("\n") == 1
    assert ("resume=" in errors) == (every == 1)


@pytest.mark.slow
def test_processes_listen_only_on_localhost(started: Any) -> None:
    process = started(*LONG)
    for each in (psutil.Process(process.pid), *trainers(process)):
        listening = {
            connection.laddr.ip
            for connection in each.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening <= {"127.0.0.1", "::1"}


@pytest.mark.slow
def test_no_process_outlives_a_killed_command(started: Any) -> None:
    # As of a command in a shell's background:
    with signal_handler([signal.SIGINT], signal.SIG_IGN):
        process = started(*LONG)
    descendants = children(process)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(descendants, timeout=30)
    assert not alive


def command(folder: Path, *overrides: str) -> list[str]:
    all_overrides = tiny.overrides(folder, f"cache={folder / 'cache'}", *overrides)
    run_dir = [] if any(text.startswith("run_dir=") for text in overrides) else [f"run_dir={folder / 'run'}"]
    return [sys.executable, str(ROOT / "experiments/run.py"), *all_overrides, *run_dir]


def run(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *overrides), capture_output=True, text=True, timeout=120)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def trainers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [child for child in children(process) if "spawn_main" in " ".join(child.cmdline())]
