"""Selects usable units of a corpus, by pure functions of its columns that need little memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from data.mapped import Column

CHUNK_UNITS, CHUNK_TOKENS = 1 << 20, 1 << 22  # processed together


class Selection(NamedTuple):
    """Usable documents, sentences or pairs of one part.

    Attributes:
        indices: their numbers in the store, ascending, of shape (n,), int64.
        left_out: how many other units of the part are left out for which reason, each under the first that holds:
            "too short", "too long", "of one token", "repeated", "without neighbours", "without continuation".
    """

    indices: np.ndarray
    left_out: Mapping[str, int]

    def narrowed(self, usable: np.ndarray, why: str) -> Selection:
        """Leaves out further units.

        Args:
            usable: which units of the store stay, of shape (n,), bool.
            why: the reason, for ``left_out``.
        """
        indices = self.indices[usable[self.indices]]
        count = len(self.indices) - len(indices)
        return Selection(indices, {**self.left_out, why: count} if count else self.left_out)


def varied(ids: np.ndarray | Column, lengths: np.ndarray) -> np.ndarray:
    """Returns which units have two different tokens, of shape (n,), bool.

    Args:
        ids: tokens of all units in one row, of shape (T,).
        lengths: tokens of each unit, of shape (n,).
    """
    result = np.zeros(len(lengths), dtype=bool)
    step = max(1, CHUNK_TOKENS * len(lengths) // max(1, len(ids)))
    done = 0
    for first in range(0, len(lengths), step):
        sizes = lengths[first : first + step]
        ends = np.cumsum(sizes)
        row = ids[done : done + int(ends[-1])]
        changes = np.concatenate([[0], np.cumsum(row[1:] != row[:-1])])  # so far, between adjacent tokens
        some = np.flatnonzero(sizes > 1)
        result[first + some] = changes[ends[some] - 1] > changes[(ends - sizes)[some]]
        done += len(row)
    return result


def repeated(texts: np.ndarray, order: np.ndarray, usable: np.ndarray, besides: np.ndarray | None) -> np.ndarray:
    """Returns which usable units repeat the text of another unit, which is kept, of shape (n,), bool.

    Of equal texts a unit of ``besides`` is kept if there is one, else that of lowest ``order``, then the first.

    Args:
        texts: hashes of the texts, of shape (n,).
        order: hashes that decide which fractions a unit belongs to, of shape (n,).
        usable: of shape (n,), bool.
        besides: other units (the training part's where ``usable`` is held out), of shape (n,), bool.
    """
    scope = usable if besides is None else usable | besides
    found = texts[scope]
    found.sort()
    found = np.unique(found[1:][found[1:] == found[:-1]])
    several = np.zeros(len(texts), dtype=bool)
    for first in range(0, len(texts), CHUNK_UNITS):
        block = slice(first, first + CHUNK_UNITS)
        several[block] = scope[block] & np.isin(texts[block], found)
    numbers = np.flatnonzero(several)
    numbers = numbers[np.lexsort((order[numbers], usable[numbers], texts[numbers]))]
    found = texts[numbers]
    result = np.zeros(len(texts), dtype=bool)
    result[numbers[1:][found[1:] == found[:-1]]] = True
    return result & usable
