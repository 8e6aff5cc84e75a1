"""Changes recovered from token ids, on cases solved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison import marking
from analysis.comparison.marking import Block, Piece
from data.batch import IGNORE, Tokens
from tests.analysis.comparison.example_comparison import END, MASK, SPECIAL, START, WORDS, texts_of, tokens

TEXT = np.arange(3, 15)


def pieces(block: Block, unit: object = TEXT) -> list[tuple[str, str]]:
    """Returns the tokens of the only row with their marks, without special tokens."""
    [row] = marking.view(unit, {"row": block}, {}).rows
    return [
        (piece.text.strip(), piece.mark) for part in row.parts for piece in part.pieces if piece.mark != "special"
    ]


def words(*numbers: int) -> list[str]:
    return [WORDS[number] for number in numbers]


def test_a_span_is_located_in_its_text() -> None:
    view = marking.view(TEXT, {"anchor": tokens(TEXT[3:7]), "positive": tokens(TEXT[5:8], TEXT[0:2])}, {})
    spans = {row.role: [part.span for part in row.parts if part.span] for row in view.rows}
    assert spans == {"anchor": [(3, 7)], "positive 1": [(5, 8)], "positive 2": [(0, 2)]}
    assert [text.strip() for text in view.originals[0]] == words(
        *TEXT
    )  # up to 12 tokens after the last span are shown


def test_a_long_text_is_cut_after_the_last_span() -> None:
    text = np.tile(TEXT, 20) + 0
    text[30:34] = 15
    [shown] = marking.view(text, {"a": tokens(text[30:34])}, {}).originals.values()
    assert len(shown) == 34 + marking.BEYOND + 1 and shown[-1] == " …"


def test_deleted_tokens_are_marked() -> None:
    kept = np.delete(TEXT, [2, 7])
    found = pieces(tokens(kept))
    assert [text for text, mark in found if mark == "deleted"] == words(5, 10)
    assert [text for text, mark in found if mark == "kept"] == words(*kept)
    assert [text for text, _ in found] == words(*TEXT)  # deleted tokens keep their places


def test_inserted_tokens_are_marked() -> None:
    found = pieces(tokens(np.insert(TEXT, 4, 16)))
    assert [text for text, mark in found if mark == "added"] == words(16)
    assert len(found) == len(TEXT) + 1


def test_replaced_tokens_show_the_original() -> None:
    changed = TEXT.copy()
    changed[5] = 16
    [row] = marking.view(TEXT, {"row": tokens(changed)}, {}).rows
    assert Piece(" " + WORDS[16], "replaced", WORDS[8]) in [piece for part in row.parts for piece in part.pieces]


def test_moved_tokens_are_neither_deleted_nor_inserted() -> None:
    found = pieces(tokens([*TEXT[:2], TEXT[9], *TEXT[2:9], *TEXT[10:]]))
    assert [text for text, mark in found if mark == "moved"] == words(TEXT[9])
    assert {mark for _, mark in found} == {"kept", "moved"}


def test_masked_tokens_are_marked_as_hidden() -> None:
    """Tokens to be predicted are marked whether they are masked, exchanged or unchanged."""
    row = [TEXT[0], MASK, 16, TEXT[3]]
    [block] = marking.view(TEXT, {"a": tokens(row, labels=[[IGNORE, TEXT[1], TEXT[2], TEXT[3]]])}, {}).rows
    content = block.parts[1]
    assert [piece.mark for piece in content.pieces] == ["kept", "hidden", "exchanged", "predicted"]
    assert content.pieces[1].was == WORDS[TEXT[1]] and content.span == (0, 4)


def test_a_word_with_mask_in_it_hides_nothing() -> None:
    def texts_with_unmasked(ids: Sequence[int]) -> list[str]:
        return [" unmasked" if i == 16 else f" {WORDS[i]}" for i in ids]

    ids, labels = np.array([TEXT[0], 16, MASK]), np.array([IGNORE, TEXT[1], TEXT[2]])
    block = Block(Tokens.pad([ids], 1, labels=[labels]), texts_with_unmasked, SPECIAL, MASK)
    assert [mark for _, mark in pieces(block)] == ["kept", "exchanged", "hidden"]


def test_what_a_decoder_predicts_is_not_hidden() -> None:
    row = np.array([START, *TEXT, END])
    block = Tokens.pad([row], 1, labels=[np.append(row[1:], IGNORE)])
    assert {mark for _, mark in pieces(Block(block, texts_of, SPECIAL))} == {"kept"}


def test_segments_are_located_separately() -> None:
    """Both segments of a swapped pair are located; a segment from another text is marked."""
    ids = np.array([START, *TEXT[6:9], END, *TEXT[3:6], END, 16, 16, END])
    [row] = marking.view(TEXT, {"pair": Block(Tokens.pad([ids], 1), texts_of, SPECIAL)}, {}).rows
    content = [part for part in row.parts if part.pieces[0].mark != "special"]
    assert [part.span for part in content] == [(6, 9), (3, 6), None]
    assert {piece.mark for piece in content[2].pieces} == {"other"}


def test_a_repeated_phrase_is_located_by_its_token_positions() -> None:
    text = np.tile(TEXT[:4], 5)
    rows = text[8:12], text[4:10]
    numbers = marking.numbered(20)
    block = tokens(*rows)._replace(numbered=tokens(numbers[8:12], numbers[4:10]).tokens)
    view = marking.view(text, {"a": block}, {})
    assert [part.span for row in view.rows for part in row.parts if part.span] == [(8, 12), (4, 10)]
    [without] = marking.view(text, {"a": tokens(rows[0])}, {}).rows
    assert without.parts[1].span == (0, 4)


def test_which_of_equal_tokens_was_deleted_follows_from_positions() -> None:
    text = np.array([TEXT[0], TEXT[1]] * 4)
    kept = [0, 1, 4, 5, 6]
    block = tokens(text[kept])._replace(numbered=tokens(marking.numbered(8)[kept]).tokens)
    assert [place for place, (_, mark) in enumerate(pieces(block, text)) if mark == "deleted"] == [2, 3, 7]


def test_positions_in_another_text_are_shown_as_another_text() -> None:
    block = tokens(TEXT[:4])._replace(numbered=tokens(marking.numbered(4, first=-9)).tokens)
    assert {mark for _, mark in pieces(block)} == {"other"}


def test_positions_that_contradict_the_tokens_are_not_used() -> None:
    """An objective that depends on token values samples differently from token positions."""
    for wrong in (marking.numbered(4, first=2), marking.numbered(3)):
        [row] = marking.view(TEXT, {"a": tokens(TEXT[5:9])._replace(numbered=tokens(wrong).tokens)}, {}).rows
        assert row.parts[1].span == (5, 9)


def test_an_unchanged_text_has_no_marks_and_equal_rows_are_merged() -> None:
    @dataclass
    class Unit:
        source: np.ndarray
        targets: tuple[np.ndarray, ...]

    view = marking.view(Unit(TEXT, (TEXT[2:4],)), {"one": tokens(TEXT), "two": tokens(TEXT)}, {})
    assert view.originals == {} and [row.same_as for row in view.rows] == ["", "one"]


@given(st.lists(st.integers(3, 6), min_size=6, max_size=20), st.data())
def test_in_repetitive_text_only_actual_changes_are_marked(old: list[int], data: st.DataObject) -> None:
    """The replacing and inserted tokens do not occur in the text, so that the expected marks are unambiguous."""
    places = sorted(data.draw(st.sets(st.integers(0, len(old) - 1), min_size=1, max_size=3)))
    text = np.array(old)
    replaced = text.copy()
    replaced[places] = 16
    for changed, expected in (
        (np.delete(text, places), "deleted"),
        (replaced, "replaced"),
        (np.insert(text, places, 16), "added"),
    ):
        marks = [mark for _, mark in pieces(tokens(changed), text) if mark != "kept"]
        assert marks in ([expected] * len(places), [])  # no marks if the row is a span of the text by coincidence


@given(st.lists(st.integers(3, 6), max_size=9), st.lists(st.integers(3, 6), max_size=9))
def test_the_number_of_edits_is_minimal(old: list[int], new: list[int]) -> None:
    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(least(i - 1, j) + 1, least(i, j - 1) + 1, least(i - 1, j - 1) + (old[i - 1] != new[j - 1]))

    edits = marking._edits(np.array(old, dtype=int), np.array(new, dtype=int))
    assert [i for i, _ in edits if i >= 0] == [*range(len(old))]
    assert [j for _, j in edits if j >= 0] == [*range(len(new))]
    changed = sum(i < 0 or j < 0 or old[i] != new[j] for i, j in edits)
    assert changed == least(len(old), len(new))


@given(
    st.lists(st.integers(3, 16), min_size=1, max_size=20), st.lists(st.integers(3, 16), min_size=1, max_size=20)
)
def test_every_token_is_kept_and_none_is_added(old: list[int], new: list[int]) -> None:
    """Without deleted tokens the pieces equal the row; kept, moved and inserted tokens have the right origin."""
    found = pieces(tokens(new), np.array(old))
    assert [text for text, mark in found if mark != "deleted"] == words(*new)
    if "other" not in {mark for _, mark in found}:
        shown = [text for text, mark in found if mark in ("kept", "moved", "deleted")]
        replaced = sum(mark == "replaced" for _, mark in found)
        assert len(shown) + replaced == len(old) or (len(new) < len(old) and len(shown) == len(new))


@pytest.mark.parametrize(
    ("names", "joined"),
    [
        pytest.param(["Ġa", "b"], " ab", id="byte-level BPE"),
        pytest.param(["▁a", "▁b"], " a b", id="SentencePiece"),
        pytest.param(["a", "##b"], " ab", id="WordPiece"),
        pytest.param(["a", "b"], " a b", id="words"),
        pytest.param(["a", "b", "Ġ", *(f"w{number}" for number in range(20))], " a b", id="words, one of them Ġ"),
    ],
)
def test_tokens_are_joined_to_text(names: list[str], joined: str) -> None:
    class Tokenizer:
        all_special_ids: tuple[int, ...] = ()

        def get_vocab(self) -> dict[str, int]:
            return {name: number for number, name in enumerate(names)}

        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [names[i] for i in ids]

        def decode(self, ids: list[int], clean_up_tokenization_spaces: bool) -> str:
            return names[ids[0]].replace("Ġ", " ").replace("▁", " ")

    assert "".join(marking.token_texts(Tokenizer())([0, 1])) == joined
