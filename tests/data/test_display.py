"""Text that is safe to print in a terminal."""

from __future__ import annotations

import time

import pytest
from tqdm import tqdm

from data import display
from data.display import printable


def test_control_characters_are_shown_escaped() -> None:
    assert printable("a\x1b[0m\r\n\x9b\u202e\ud800 é 你") == r"a\x1b[0m\r\n\x9b\u202e\ud800 é 你"
    assert printable("👩\u200d🔬") == "👩\u200d🔬"  # the zero-width joiner in an emoji is no control character


def test_without_a_terminal_an_occasional_line_has_the_time_left_at_the_mean_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps 1 to 64, of 5 s each, are the second half of the work."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with display.bar("training", 0.5) as show:
        for step in range(1, 65):
            now += 5
            show(0.5 + step / 128, f"step {step}")
    assert capsys.readouterr().err.splitlines() == [
        f"training {0.5 + step / 128:.0%}  step {step}  {tqdm.format_interval(5 * (64 - step))} left"
        for step in (2, *range(14, 64, 12))
    ]
