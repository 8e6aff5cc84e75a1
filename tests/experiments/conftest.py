"""Fixtures that several test files use."""

from __future__ import annotations

import pytest


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the training curves: drawing them takes longer than a tiny training."""
    monkeypatch.setattr("analysis.run_figure.draw", lambda folder: [folder / "none.png"])
