"""The progress of a run on a terminal and without one."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from data.display import duration
from experiments.progress import Display, Row, summary

CLEARED = "\x1b[2K"  # sent to a terminal before a line is rewritten


def ten_minutes(monkeypatch: pytest.MonkeyPatch, *, verbose: bool = False, terminal: bool = False) -> list[str]:
    """Trains 120 steps of 5 s, of which every tenth is logged; returns the lines that remain on the screen."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    out = io.StringIO()
    console = Console(file=out, width=120, highlight=False, force_terminal=terminal, get_time=lambda: now)
    with Display(console=console, verbose=verbose).bar("training", 120) as update:
        for step in range(1, 121):
            now += 5
            update(step, 120, "loss 1.000", logged=step % 10 == 0)
    lines = [line.rpartition(CLEARED)[2] for line in out.getvalue().split("\n")]
    return [line for line in lines if line.startswith("training") and "━" not in line]


def line(step: int) -> str:
    left = f"  {duration(5 * (120 - step))} left" if step < 120 else ""
    return f"training {step} of 120  loss 1.000{left}"


def test_without_a_terminal_there_is_one_line_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    # after 10 s, every minute, and the last step
    assert ten_minutes(monkeypatch) == [*map(line, (2, *range(14, 120, 12), 120))]


def test_verbose_prints_a_line_at_each_logged_step(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*map(line, (2, *range(10, 121, 10)))]  # the first line follows after 10 s, before a logged step
    assert ten_minutes(monkeypatch, verbose=True) == lines
    assert ten_minutes(monkeypatch, verbose=True, terminal=True) == lines[1:]  # above the bar
    assert ten_minutes(monkeypatch, terminal=True) == []


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    with Display(console=Console(file=out, force_terminal=True, width=120)).bar("training", 10) as update:
        update(5, 10, "loss 1.000")
    assert "training" in out.getvalue() and "loss 1.000" in out.getvalue()


def test_progress_of_several_tasks_at_once() -> None:
    out = io.StringIO()
    shown = Display(console=Console(file=out))
    with shown.rows() as show:
        show([Row("all runs", 0.0), Row("c", 0.25)])
        show([Row("all runs", 0.5, text="soon"), Row("a", 3, 4, "SentEval"), Row("b", 7, None)], True)
    assert out.getvalue() == "all runs 50%  soon; a 3 of 4  SentEval; b 7\n"
    terminal = Display(console=Console(file=out, force_terminal=True, width=120))
    with terminal.rows() as show:
        show([Row("one", 0.25), Row("two", 0.75)])
        show([Row("two", 1.0), Row("three", 0.5, text="SentEval")])
    assert all(part in out.getvalue() for part in ("two", "100%", "three", "SentEval"))


def test_only_the_first_process_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display(shown=False)
    shown.say("a")
    with shown.bar("training", 10) as update:
        update(10, 10)
    assert capsys.readouterr().out == ""


def test_the_summary_has_losses_and_speed() -> None:
    assert summary({"loss": 1.5, "mlm": 0.25}, 12_345.6) == "loss 1.500  mlm 0.250  12,346 tokens/s"
