"""Text that is fit for a terminal, and cells that no spreadsheet computes."""

from __future__ import annotations

import pytest

from data.display import csv_cell, duration, nearest_model, printable
from data.errors import LONGEST, UserError


def test_printable() -> None:
    assert printable("a\x1b[0m\r\n\x9b\u202e\ud800 é 你") == r"a\x1b[0m\r\n\x9b\u202e\ud800 é 你"
    assert printable("👩\u200d🔬") == "👩\u200d🔬"  # a joiner, not a control character


def test_csv_cell() -> None:
    cells = ["=1", "+cmd", "-x", "@a", " =1", "\t=1", "＝1", "-0.22", "+1e5", "a=1", "", 3, -2.5, None]
    assert [csv_cell(cell) for cell in cells] == [
        *("'=1", "'+cmd", "'-x", "'@a", "' =1", r"\t=1", "'＝1"),
        *("-0.22", "+1e5", "a=1", "", 3, -2.5, None),
    ]


def test_an_error_is_fit_for_a_terminal() -> None:
    assert str(UserError("a\x1b[31m\rb")) == r"a\x1b[31m\rb"
    assert len(str(UserError("a" * 10**6))) < LONGEST + 10


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (40, "40 s"), (300, "5 min"), (11_500, "3.2 h"), (180_000, "2.1 days"), (1e7, "116 days"),
        (8215 * 86400, "22 years"), (2e8, "6.3 years"),
    ],
)  # fmt: skip
def test_durations_have_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("declutr_mini", "declutr-mini"),
        ("DeCLUTR-mni", "declutr-mini"),
        ("Bag-of-words", "bag_of_words"),
        ("roberta-base", None),
        ("", None),
    ],
)
def test_the_nearest_model_name(name: str, meant: str | None) -> None:
    assert nearest_model(name, ["declutr-mini", "roberta-mini", "bag_of_words"]) == meant
