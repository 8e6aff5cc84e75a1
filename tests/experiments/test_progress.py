"""The progress of a run on a terminal and without one."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from experiments import progress
from experiments.progress import Display, Row, summary


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
    announced, first, last = out.getvalue().splitlines()
    assert (announced, last) == ("training ...", "short 1 of 1")
    assert first.startswith("training 1 of 10  about 0:00:0") and first.endswith(" left in all")


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    with Display(console=Console(file=out, force_terminal=True, width=120)).bar("training", 10) as update:
        update(5, 10, "loss 1.000")
    assert "training" in out.getvalue() and "loss 1.000" in out.getvalue()


def test_tasks_side_by_side() -> None:
    out = io.StringIO()
    display = Display(console=Console(file=out))
    with display.rows("all runs") as show:
        show([Row("all runs", 0.0), Row("a", 0.25, text="")])
        show([Row("all runs", 0.5, text="soon"), Row("a", 3, 4, "SentEval"), Row("b", 7, None)], True)
    assert out.getvalue() == "all runs 50%  soon; a 3 of 4  SentEval; b 7\n"
    terminal = Display(console=Console(file=out, force_terminal=True, width=120))
    with terminal.rows("all runs") as show:
        show([Row("one", 0.25), Row("two", 0.75)])
        show([Row("two", 1.0), Row("three", 0.5, text="SentEval")])
    assert all(part in out.getvalue() for part in ("two", "100%", "three", "SentEval"))


def test_other_processes_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(shown=False)
    display.say("a")
    with display.bar("training", 10) as update:
        update(10, 10, "")
    assert capsys.readouterr().out == ""


def test_summary() -> None:
    assert summary({"loss": 1.5, "mlm": 0.25}, 12_345.6, 75) == "loss 1.500  mlm 0.250  12,346 tokens/s  1:15 left"
    assert summary({}, 5.0, 7e8).endswith("5 tokens/s  22 years left")
