"""Examples of what objectives draw: named rightly or not at all, and text of the corpus as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data.errors import UserError
from data.views.spans import Span
from experiments import compose
from experiments.reproduction import examples, specification


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A run's: documents of words that Markdown would read as signs."""
    words = [f"<b{i}>" if i % 2 else f"*w|{i}*" for i in range(300)]
    lines = [json.dumps({"text": " ".join(words[start:])}) for start in range(8)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    spans = {"min_length": 16, "max_length": 32, "anchor_beta": [4, 2], "positive_beta": [2, 4], "gap": None}
    corpus = {"_target_": "data.sources.text.Text", "path": str(tmp_path / "corpus.jsonl")}
    return {"corpus": corpus, "objective": spans}


@pytest.mark.parametrize(
    ("positive", "view"),
    [
        (Span(20, 30), "adjacent"),
        (Span(0, 10), "adjacent"),
        (Span(12, 18), "subsumed"),
        (Span(10, 20), "subsumed"),
        (Span(5, 25), "around"),
        (Span(10, 25), "around"),
        (Span(5, 15), "overlapping"),
        (Span(15, 25), "overlapping"),
    ],
)
def test_how_two_spans_lie(positive: Span, view: str) -> None:
    assert examples.view_of(Span(10, 20), positive) == view


def test_rows_are_what_they_are_called(config: dict[str, Any]) -> None:
    shown = examples.spans(config, {})
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:5]] == [f"| {view}" for view in examples.VIEWS]
    assert r"\<b" in shown and r"\*w\|" in shown
    assert "<b" not in shown.replace(r"\<", "")


def test_a_view_that_is_never_drawn_has_no_row(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "view_of", lambda anchor, positive: "adjacent")
    shown = examples.spans(config, {})
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:] if line.startswith("| ")] == ["| adjacent"]


@pytest.mark.parametrize(("name", "times"), [("declutr/table5", 2), ("declutr_v1/table_s2", 1)])
def test_anchors_lie_as_far_apart_as_that_version_of_the_paper_says(
    config: dict[str, Any], name: str, times: int
) -> None:
    """Spans of at most 64 words from documents of 300."""
    given = specification.read(name)
    asked = compose.check(list(given.base))
    assert given.table is not None
    shown = examples.spans(config | {"objective": asked["objective"]}, given.table.settings)
    assert "spans of 16 to 64 words here" in shown
    assert f"Hard: of the anchor's document, {64 * times} words or more" in shown


def test_an_objective_without_spans_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^objective must be one that draws spans"):
        examples.spans(config | {"objective": {"max_length": 64}}, {})
