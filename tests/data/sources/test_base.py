"""The hashes that decide the split into parts; normalised texts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from data.sources.base import Example, normalise, split_hash, text_hash
from tests.data.samples import Listed


def test_split_hash_is_pinned() -> None:
    # With other values, dev documents of existing runs would move into the training part.
    assert split_hash(None, "A text.") == 4164398138640816061
    assert split_hash("book", "A text.") == split_hash("book", "Another.") == 5777011768939924531
    assert text_hash("A text.") == 15139746393382070570


@given(st.text())
def test_normalise_is_idempotent_and_leaves_single_blanks(text: str) -> None:
    clean = normalise(text)
    assert clean == normalise(clean) == clean.strip()
    assert not any(a.isspace() and (a != " " or b.isspace()) for a, b in pairwise(clean))


def test_normalise_replaces_what_utf8_cannot_hold() -> None:
    assert normalise(" a\ud800\n\tb\xa0c ") == "a? b c"


def test_texts_are_those_of_the_training_part() -> None:
    examples = [
        Example(("  In \n TRAINING ", "a"), part="train", repeats=2),
        Example(("held out", "b"), part="dev"),
        Example((" \n", "c"), part="train"),
    ]
    source = Listed(examples, lowercase=True, fraction=0.001)
    assert list(source.texts()) == ["in training"] * 2 and list(source.texts(None)) == ["in training", "a"] * 2
