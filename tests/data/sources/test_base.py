"""The split into parts: stable, by group, with nested fractions; normalised texts and fingerprints."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.sources.base import EMPTY, Example, fingerprint, normalise, order_hash, part_of, split_hash, threshold
from tests.data.samples import Listed


def test_split_hash_is_pinned() -> None:
    # With other values, dev documents of existing runs would move into the training part.
    assert split_hash(None, "A text.") == 4164398138640816061
    assert split_hash("book", "A text.") == split_hash("book", "Another.") == 5777011768939924531
    assert order_hash("A text.") == 15139746393382070570


@given(st.floats(0, 1), st.floats(0, 1), st.text())
def test_smaller_shares_lie_within_larger_ones(one: float, other: float, text: str) -> None:
    small, large = sorted((one, other))
    if order_hash(normalise(text)) < threshold(small):
        assert order_hash(normalise(text)) < threshold(large)
    assert order_hash(normalise(text)) < threshold(1.0)


def test_shares_are_kept_and_independent() -> None:
    texts = [f"document {i}" for i in range(20_000)]
    dev = np.array([part_of(None, split_hash(None, text), 0.05) == "dev" for text in texts])
    tenth = np.array([order_hash(text) < threshold(0.1) for text in texts])
    assert dev.mean() == pytest.approx(0.05, abs=0.006)
    assert tenth.mean() == pytest.approx(0.1, abs=0.01)
    assert (dev & tenth).mean() == pytest.approx(0.005, abs=0.002)


def test_a_given_part_overrides_the_hash() -> None:
    assert part_of("train", 0, 0.5) == "train"
    assert part_of("dev", 2**64 - 1, 0.5) == "dev"


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
    assert list(source.texts()) == ["in training"] * 2 and list(source.texts(1)) == ["a", "a"]
    assert list(source.texts(None)) == ["in training", "a"] * 2 and source.skipped == {EMPTY: 1}


def test_a_corpus_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source, identities = Listed([]), iter([["a text"]])
    monkeypatch.setattr(source, "identity", lambda: next(identities))
    assert source.fingerprint == source.fingerprint == fingerprint("a text")
    assert source.texts_key() == source.texts_key() != source.fingerprint


def test_fingerprint_depends_on_the_borders() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint("ab", "c") == fingerprint(b"ab", b"c")
