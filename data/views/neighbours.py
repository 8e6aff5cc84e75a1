"""Neighbours of a sentence in its document, which skip-thought predicts (Kiros et al. 2015).

s_(i-1) <- s_i -> s_(i+1)        offsets -1 and +1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from data.errors import UserError
from data.loader import Units
from data.sources.base import PART_NAMES, Part
from data.store import Selection, TokenTable


class NeighbourUnit(NamedTuple):
    """A sentence and its neighbours, as content token ids.

    Attributes:
        sentence: of shape (n,).
        neighbours: an array of shape (m,) for each offset, perhaps under another tokenizer.
    """

    sentence: np.ndarray
    neighbours: tuple[np.ndarray, ...]


class Neighbours:
    """Units of a sentence with its neighbours, by the number of the sentence.

    Args:
        sentences: all sentences of a corpus, in their order.
        targets: the same sentences as targets, perhaps under another tokenizer.
        offsets: positions of the neighbours; 1 is the next sentence, -1 the previous one.
    """

    def __init__(self, sentences: Units, targets: Units, offsets: Sequence[int]) -> None:
        self.sentences = sentences
        self.targets = targets
        self.offsets = tuple(offsets)

    def __getitem__(self, i: int) -> NeighbourUnit:
        """Returns sentence ``i`` and its neighbours, all of which must exist (``select``)."""
        return NeighbourUnit(self.sentences[i], tuple(self.targets[i + offset] for offset in self.offsets))


def has_neighbours(documents: np.ndarray, usable: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """Returns which sentences have usable neighbours at all ``offsets``, of shape (n,), bool.

    A neighbour is a sentence of the same document.

    Args:
        documents: number of each sentence's document, of shape (n,).
        usable: which sentences may be neighbours, of shape (n,), bool.
        offsets: as ``Neighbours`` has them, none of them 0.
    """
    n = len(documents)
    result = np.ones(n, dtype=bool)
    for offset in offsets:
        low, high = max(0, -offset), n - max(0, offset)  # of the sentences with any sentence at the offset
        there = np.zeros(n, dtype=bool)
        if low < high:
            here, other = slice(low, high), slice(low + offset, high + offset)
            there[here] = (documents[here] == documents[other]) & usable[other]
        result &= there
    return result


def select(store: TokenTable, part: Part, offsets: Sequence[int]) -> Selection:
    """Selects the sentences of ``part`` that have neighbours at all ``offsets``.

    A repeated sentence is selected once (as ``store`` has it), but may be the neighbour of several sentences.

    Args:
        store: of sentences.
        part: "train" or "dev".
        offsets: as ``Neighbours`` has them.

    Raises:
        ValueError: if the units of ``store`` are documents.
        UserError: if no sentence is left.
    """
    if store.sentences is None:
        raise ValueError("Neighbours need a store of sentences. Got one of documents.")
    usable = np.zeros(len(store), dtype=bool)
    usable[store.select(part, rules=replace(store.sentences, unique=False)).indices] = True
    found = store.select(part)
    selected = found.narrowed(has_neighbours(store.documents, usable, offsets), "without neighbours")
    if not len(selected.indices):
        kind = PART_NAMES[part]
        raise UserError(
            f"none of the {len(found.indices):,} {kind} sentences has a neighbour in its document", key="corpus"
        )
    return selected
