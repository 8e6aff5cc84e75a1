"""Command lines of reproduce.py and compare.py: flags are refused with what to write instead, help is laid out."""

from __future__ import annotations

import sys

import pytest

from experiments import arguments
from experiments.comparison import settings as comparison
from experiments.reproduction import settings as reproduction


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("--figure declutr/2a", "--figure declutr/2a: write figure=declutr/2a."),
        ("figure=declutr/2a --dry-run", "--dry-run: write dry_run=true."),
        ("--list", "--list: write list=true."),
        ("--config-dir conf", "--config-dir: only run.py and evaluate.py take this flag."),
        ("-m", "-m: only run.py and evaluate.py take this flag."),
    ],
)
def test_a_flag_is_one_line(
    given: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *given.split()])
    with pytest.raises(SystemExit) as end:
        arguments.run(lambda given: 0, reproduction.FILE)
    assert (end.value.code, capsys.readouterr().err) == (2, f"{line}\n")


def test_keys_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "seeds=[1,2]", "corpus=text"])
    assert arguments.run(lambda given: len(given), comparison.FILE) == 2


def test_help_has_keys_beside_their_comments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "seeds=[1,2]", "--help"])
    assert arguments.run(lambda given: 1, comparison.FILE) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Trains every pair")  # without the YAML's "#"
    assert any(line.split(maxsplit=2)[:2] == ["jobs:", "1"] and "  runs at a time" in line for line in lines)
