"""The progress of a run on a terminal and without one."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from experiments import progress
from experiments.progress import Display, summary


def test_plain_lines_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))  # a call every 4 s
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    with Display(console=Console(file=out)).bar("training", 10) as update:
        for done in range(1, 11):
            update(done, 10, "loss 1.000")
    lines = out.getvalue().splitlines()
    assert lines[-1] == "training 10 of 10  loss 1.000"
    assert 2 <= len(lines) < 10


def test_a_task_without_progress_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.05)
    out = io.StringIO()
    display = Display(console=Console(file=out))
    with display.bar("training", 10) as update:
        time.sleep(0.5)
        update(1, 10, "")
    with display.bar("short", 1) as update:
        update(1, 1, "")
    time.sleep(0.2)
    assert out.getvalue().splitlines() == ["training ...", "training 1 of 10", "short 1 of 1"]


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    with Display(console=Console(file=out, force_terminal=True, width=120)).bar("training", 10) as update:
        update(5, 10, "loss 1.000")
    assert "training" in out.getvalue() and "loss 1.000" in out.getvalue()


def test_other_processes_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(shown=False)
    display.say("a")
    with display.bar("training", 10) as update:
        update(10, 10, "")
    assert capsys.readouterr().out == ""


def test_summary() -> None:
    assert summary({"loss": 1.5, "mlm": 0.25}, 12_345.6, 75) == "loss 1.500  mlm 0.250  12,346 tokens/s  1:15 left"
    assert summary({}, 5.0, 7e8).endswith("5 tokens/s  22 years left")
