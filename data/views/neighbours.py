"""Neighbours of a sentence in its document, which skip-thought predicts (Kiros et al. 2015).

s_(i-1) <- s_i -> s_(i+1)        offsets -1 and +1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from data.sources.base import Part
from data.store import Selection, TokenTable


class NeighbourUnit(NamedTuple):
    """A sentence and its neighbours, as content token ids.

    Attributes:
        sentence: of shape (n,).
        neighbours: an array of shape (m,) for each offset, perhaps under another tokenizer.
    """

    sentence: np.ndarray
    neighbours: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Neighbours:
    """Units of a sentence with its neighbours, by the number of the sentence.

    Attributes:
        sentences: all sentences of a corpus, in their order.
        targets: the same sentences as targets, perhaps under another tokenizer.
        offsets: positions of the neighbours; 1 is the next sentence, -1 the previous one.
    """

    sentences: Any
    targets: Any
    offsets: Sequence[int]

    def __getitem__(self, i: int) -> NeighbourUnit:
        """Returns sentence ``i`` and its neighbours, all of which must exist (``select``)."""
        return NeighbourUnit(self.sentences[i], tuple(self.targets[i + offset] for offset in self.offsets))


def has_neighbours(documents: np.ndarray, usable: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """Returns a mask of the sentences that have usable neighbours at all ``offsets``, of shape (n,), bool.

    A neighbour is a sentence of the same document.

    Args:
        documents: number of each sentence's document, of shape (n,).
        usable: mask of the sentences that may be neighbours, of shape (n,), bool.
        offsets: as ``Neighbours`` has them, none of them 0.
    """
    places = np.arange(len(documents))
    result = np.ones(len(documents), dtype=bool)
    for offset in offsets:
        other = (places + offset).clip(0, len(documents) - 1)
        result &= (other == places + offset) & (documents[other] == documents) & usable[other]
    return result


def select(store: TokenTable, part: Part, offsets: Sequence[int]) -> Selection:
    """Selects the sentences of ``part`` that have neighbours at all ``offsets``.

    A repeated sentence is selected once (as ``store`` has it), but may be the neighbour of several sentences.

    Args:
        store: of sentences.
        part: "train" or "dev".
        offsets: as ``Neighbours`` has them.

    Raises:
        UserError: if no sentence is left.
    """
    assert store.sentences is not None  # Requirements.unit is sentence
    usable = np.zeros(len(store), dtype=bool)
    usable[store.select(part, rules=replace(store.sentences, unique=False)).indices] = True
    mask = has_neighbours(store.documents, usable, offsets)
    return store.select(part).narrow(mask, "without neighbours", "a neighbour in its document")
