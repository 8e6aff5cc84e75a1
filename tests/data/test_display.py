"""Text that is safe to print in a terminal, and CSV cells that no spreadsheet evaluates."""

from __future__ import annotations

import pytest

from data import display
from data.display import csv_cell, duration, nearest_model, printable


def test_control_characters_are_shown_escaped() -> None:
    assert printable("a\x1b[0m\r\n\x9b\u202e\ud800 é 你") == r"a\x1b[0m\r\n\x9b\u202e\ud800 é 你"
    assert printable("👩\u200d🔬") == "👩\u200d🔬"  # the zero-width joiner in an emoji is no control character


def test_a_csv_cell_is_never_a_formula() -> None:
    cells = ["=1", "+cmd", "-x", "@a", " =1", "\t=1", "＝1", "-0.22", "+1e5", "a=1", "", 3, -2.5, None]
    assert [csv_cell(cell) for cell in cells] == [
        *("'=1", "'+cmd", "'-x", "'@a", "' =1", r"\t=1", "'＝1"),
        *("-0.22", "+1e5", "a=1", "", 3, -2.5, None),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (40, "40 s"), (300, "5 min"), (11_500, "3.2 h"), (180_000, "2.1 days"), (1e7, "116 days"),
        (8215 * 86400, "22 years"), (2e8, "6.3 years"),
    ],
)  # fmt: skip
def test_durations_are_shown_in_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("declutr_mini", "declutr-mini"),
        ("DeCLUTR-mni", "declutr-mini"),
        ("Bag-of-words", "bag_of_words"),
        ("roberta-base", None),
        ("", None),
    ],
)
def test_the_nearest_model_name_is_suggested(name: str, suggestion: str | None) -> None:
    assert nearest_model(name, ["declutr-mini", "roberta-mini", "bag_of_words"]) == suggestion


def test_without_a_terminal_a_bar_is_an_occasional_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "FIRST_SECONDS", 0)
    with display.bar("embedding, it") as progress:
        for share in (0.25, 0.5, 1.0):
            progress(share)
    assert "embedding, it 25%" in capsys.readouterr().err
    monkeypatch.undo()
    with display.bar("embedding, it") as progress:
        progress(0.25)
    assert "25%" not in capsys.readouterr().err
