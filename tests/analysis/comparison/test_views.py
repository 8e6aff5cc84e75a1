"""Data of the examples on the page: spans, stretches of text, rows, legend."""

from __future__ import annotations

import numpy as np

from analysis.comparison import marking, views
from tests.analysis.comparison import example_comparison
from tests.analysis.comparison.example_comparison import WORDS, tokens

DOCUMENT = np.arange(3, len(WORDS))


def test_spans_are_marked_in_the_text_and_named_beside_it() -> None:
    spans, _ = (task.views[0] for objective in example_comparison.views() for task in objective.tasks)
    shown = views.shown(spans)
    [(chart, stretches)] = shown["texts"]
    assert [span.name for span, *_ in chart["lanes"]] == ["anchor", "positive 1", "positive 2"]
    assert [span.kind for span, *_ in chart["lanes"]] == [0, 1, 1]
    assert [kinds for _, kinds in stretches] == [[], [0], [0, 1], [1], []]
    assert "".join(words for words, _ in stretches).split() == [*WORDS[3:]]
    roles = {role: (remark, len(pieces)) for role, remark, pieces in shown["rows"]}
    assert roles["anchor"] == ("", 8)  # with a masked token and two special ones
    assert roles["positive 2"] == ("tokens 10 to 12, as marked above", 0)


def test_text_far_from_spans_is_left_out() -> None:
    text = np.tile(DOCUMENT, 9)
    text[60:64] = 3
    [(_, stretches)] = views.shown(marking.view(text, {"a": tokens(text[60:64])}, {}))["texts"]
    assert " […]" in stretches[0][0] and len(stretches[0][0].split()) == 2 * marking.BEYOND + 1


def test_equal_rows_are_shown_once() -> None:
    shown = views.shown(marking.view(DOCUMENT, {"one": tokens(DOCUMENT), "two": tokens(DOCUMENT)}, {"label": "1"}))
    assert shown["texts"] == [] and shown["rows"][1][1:] == ("the same tokens as one", [])
    assert shown["numbers"] == {"label": "1"}


def test_the_legend_explains_the_marks_that_occur() -> None:
    assert {piece.mark: piece.was for piece, _ in views.legend(example_comparison.views())} == {
        "hidden": "old",
        "moved": "",
    }
