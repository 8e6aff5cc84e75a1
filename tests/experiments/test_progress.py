"""Lines and progress of a run."""

from __future__ import annotations

import pytest

from data import display
from experiments.progress import Display


def test_only_the_first_process_shows_lines_and_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "FIRST_SECONDS", 0)
    for shown in (True, False):
        with Display(shown).bar("training", 0.25) as show:
            Display(shown).fact("run", "runs/a\x1b")
            show(0.5, "loss 1.000")
        assert capsys.readouterr() == (
            "run         runs/a\\x1b\ntraining 50%  loss 1.000  00:00 left\n" * shown,
            "",
        )
