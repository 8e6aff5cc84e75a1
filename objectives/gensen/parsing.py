"""Constituency parsing: from a sentence its tree as a row of brackets (``data.sources.trees``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data.sources.grammar import GrammarParsing
from data.sources.trees import Trees
from objectives.gensen.base import Sizes, blamed
from objectives.gensen.pairs import PairTask


class Parsing(PairTask):
    """A decoder of brackets, whose words are symbols between blanks.

    Args:
        data: arguments of ``Trees``; None: the grammar's sentences.
        synthetic_pairs: how many of these.
        sizes: see ``Sizes``.

    Raises:
        ValueError, UserError: as ``Trees`` does.
    """

    def __init__(self, data: Mapping[str, Any] | None, synthetic_pairs: int, sizes: Sizes) -> None:
        with blamed("parse"):
            made_up = GrammarParsing(pairs=synthetic_pairs)
            super().__init__("parse", made_up if data is None else Trees(**data), sizes)
