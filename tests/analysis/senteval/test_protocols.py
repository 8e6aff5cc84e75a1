"""Protocols: names, and changes recorded in them."""

from __future__ import annotations

from itertools import product
from typing import get_args

from analysis.senteval.protocols import PROTOCOLS, ProtocolName


def test_protocols_are_listed_under_their_names() -> None:
    assert get_args(ProtocolName) == (*PROTOCOLS,) == tuple(protocol.name for protocol in PROTOCOLS.values())


def test_the_grid_of_conssent() -> None:
    choices = PROTOCOLS["conssent"].probing
    assert {(choice.hidden, choice.dropout) for choice in choices} == {*product((50, 100, 200), (0.0, 0.1, 0.2))}
    assert all(choice.dropout_last for choice in choices) and choices[0].hidden == choices[1].hidden == 50
