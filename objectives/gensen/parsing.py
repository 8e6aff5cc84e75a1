"""Constituency parsing: from a sentence its tree as a row of brackets (``data.sources.trees``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data.sources.samples import Samples
from data.sources.trees import Trees
from objectives.gensen.base import Sizes, blamed
from objectives.gensen.pairs import PairTask


class Parsing(PairTask):
    """A decoder of brackets, whose words are symbols between blanks.

    Args:
        data: arguments of ``Trees``; None: generated pairs.
        synthetic_pairs: how many of these.
        sizes: see ``Sizes``.

    Raises:
        ValueError, UserError: as ``Trees`` does.
    """

    def __init__(self, data: Mapping[str, Any] | None, synthetic_pairs: int, sizes: Sizes) -> None:
        with blamed("parse"):
            source = Samples(kind="parse", pairs=synthetic_pairs) if data is None else Trees(**data)
            super().__init__("parse", source, sizes)
