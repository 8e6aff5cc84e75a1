"""Examples of sampled spans and sentences: named relations, escaped text, marks of deleted words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import catalogue, examples
from analysis.figures.exhibits import Table
from data.errors import UserError
from data.sources.text import Text
from data.views.spans import Span
from experiments import compose

CONFIG: dict[str, Any] = {
    "objective": {"min_length": 16, "max_length": 32, "anchor_beta": [4, 2], "positive_beta": [2, 4], "gap": None},
    "sentences": {"split": False},
}


@pytest.fixture
def source(tmp_path: Path) -> Text:
    """Returns documents of 300 words or a few less, with characters of Markdown and HTML."""
    words = [f"<b{i}>" if i % 2 else f"*w|{i}*" for i in range(300)]
    lines = [json.dumps({"text": " ".join(words[start:])}) for start in range(8)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    return Text(path=str(tmp_path / "corpus.jsonl"))


@pytest.mark.parametrize(
    ("positive", "view"),
    [
        pytest.param(Span(20, 30), "adjacent", id="directly after"),
        pytest.param(Span(0, 10), "adjacent", id="directly before"),
        pytest.param(Span(12, 18), "subsumed", id="inside"),
        pytest.param(Span(10, 20), "subsumed", id="equal"),
        pytest.param(Span(5, 25), "around", id="around"),
        pytest.param(Span(10, 25), "around", id="around from the same start"),
        pytest.param(Span(5, 15), "overlapping", id="over the start"),
        pytest.param(Span(15, 25), "overlapping", id="over the end"),
    ],
)
def test_the_relation_of_two_spans_is_named(positive: Span, view: str) -> None:
    assert examples.view_of(Span(10, 20), positive) == view


def test_rows_are_labelled_with_their_relation_and_text_is_escaped(source: Text) -> None:
    shown = examples.spans(CONFIG, source)
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:5]] == [f"| {view}" for view in examples.VIEWS]
    assert r"\<b" in shown and r"\*w\|" in shown
    assert "<b" not in shown.replace(r"\<", "")


def test_a_relation_that_is_never_sampled_has_no_row(source: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "view_of", lambda anchor, positive: "adjacent")
    shown = examples.spans(CONFIG, source)
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:] if line.startswith("| ")] == ["| adjacent"]


@pytest.mark.parametrize(("name", "times"), [("declutr/table5", 2), ("declutr_v1/table_s2", 1)])
def test_the_distance_of_anchors_follows_the_version_of_the_paper(source: Text, name: str, times: int) -> None:
    """The documents have 300 words; the configuration allows spans of 16 to 64 words."""
    table = catalogue.EXHIBITS[name]
    assert isinstance(table, Table) and table.examples is examples.spans
    shown = table.examples(compose.check([*table.base]), source)
    assert "spans of 16 to 64 words here" in shown
    assert f"Hard: of the anchor's document, {64 * times} words or more" in shown


def test_an_objective_without_spans_is_refused(source: Text) -> None:
    with pytest.raises(UserError, match=r"^objective must be one that samples spans"):
        examples.spans({"objective": {"max_length": 64}}, source)


def test_a_caret_marks_the_place_of_a_deleted_word(tmp_path: Path) -> None:
    lines = [" ".join(f"w{(7 * line + i) % 50}" for i in range(10)) for line in range(20)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    shown = examples.sequences(CONFIG, Text(path=str(tmp_path / "corpus.txt"))).splitlines()
    _, positive, negative = (cell.strip(" |").split() for cell in shown[2].split(" | "))
    place = negative.index("^")
    assert negative[:place] == positive[:place] and negative[place + 1 :] == positive[place + 1 :]
    assert "^ marks the place of a deleted word" in shown[-1]
