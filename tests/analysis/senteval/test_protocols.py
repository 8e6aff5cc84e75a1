"""Protocols: names, and changes recorded in them."""

from __future__ import annotations

from typing import get_args

from analysis.senteval.protocols import PROTOCOLS, ProtocolName


def test_protocols_are_listed_under_their_names() -> None:
    assert get_args(ProtocolName) == (*PROTOCOLS,) == tuple(protocol.name for protocol in PROTOCOLS.values())


def test_changes_are_recorded_in_the_name_and_end_the_tuning() -> None:
    conssent = PROTOCOLS["conssent"]
    assert conssent.changed() == conssent
    changed = conssent.changed(hidden=0, folds=3)
    assert (changed.name, changed.folds, changed.classifier.hidden) == ("conssent+hidden=0+folds=3", 3, 0)
    assert changed.probing_hidden == () and changed.probing_dropout == conssent.probing_dropout
    changed = conssent.changed(dropout=0.0)
    assert (changed.name, changed.classifier.dropout) == ("conssent+dropout=0.0", 0.0)
    assert changed.probing_hidden == conssent.probing_hidden and changed.probing_dropout == (0.0,)


def test_sentences_are_lower_cased_where_the_protocol_says_so() -> None:
    assert PROTOCOLS["gensen"].preprocess("A b") == "a b" and PROTOCOLS["default"].preprocess("A b") == "A b"
