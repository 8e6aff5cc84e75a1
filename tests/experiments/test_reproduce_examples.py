"""Examples of what objectives draw: named rightly or not at all, and text of the corpus as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.views.spans import Span
from experiments.reproduction import examples


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A run's: documents of words that Markdown would read as signs."""
    words = [f"<b{i}>" if i % 2 else f"*w|{i}*" for i in range(300)]
    lines = [json.dumps({"text": " ".join(words[start:])}) for start in range(8)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    return {"corpus": {"_target_": "data.sources.text.Text", "path": str(tmp_path / "corpus.jsonl")}}


@pytest.mark.parametrize(
    ("positive", "view"),
    [
        (Span(20, 30), "adjacent"),
        (Span(0, 10), "adjacent"),
        (Span(12, 18), "subsumed"),
        (Span(10, 20), "subsumed"),
        (Span(5, 25), "subsumed"),
        (Span(5, 15), "overlapping"),
        (Span(15, 25), "overlapping"),
    ],
)
def test_how_two_spans_lie(positive: Span, view: str) -> None:
    assert examples.view_of(Span(10, 20), positive) == view


def test_rows_are_what_they_are_called(config: dict[str, Any]) -> None:
    shown = examples.spans(config, {"max_length": 32})
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:5]] == [f"| {view}" for view in examples.VIEWS]
    assert r"\<b" in shown and r"\*w\|" in shown
    assert "<b" not in shown.replace(r"\<", "")


def test_a_view_that_is_never_drawn_has_no_row(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "view_of", lambda anchor, positive: "adjacent")
    shown = examples.spans(config, {"max_length": 32})
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:] if line.startswith("| ")] == ["| adjacent"]
