"""Environment variables are restored."""

from __future__ import annotations

import os

import pytest

from data.environment import environment


def test_variables_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_A", "before")
    monkeypatch.delenv("SUITE_B", raising=False)
    with pytest.raises(RuntimeError), environment({"SUITE_A": "1", "SUITE_B": "2"}):
        assert (os.environ["SUITE_A"], os.environ["SUITE_B"]) == ("1", "2")
        raise RuntimeError
    assert (os.environ["SUITE_A"], os.environ.get("SUITE_B")) == ("before", None)
