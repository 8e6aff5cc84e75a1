"""Environment variables are restored, and only those that were set."""

from __future__ import annotations

import os

import pytest

from data.environment import environment


def test_variables_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_A", "before")
    monkeypatch.delenv("SUITE_B", raising=False)
    monkeypatch.delenv("SUITE_C", raising=False)
    with pytest.raises(RuntimeError), environment({"SUITE_A": "1", "SUITE_B": "2"}):
        assert (os.environ["SUITE_A"], os.environ["SUITE_B"]) == ("1", "2")
        os.environ["SUITE_C"] = "3"
        raise RuntimeError
    assert [os.environ.get(f"SUITE_{name}") for name in "ABC"] == ["before", None, "3"]
