"""Next sentence prediction: whether segment B follows A or is from another document (Devlin et al. 2019).

Section 3.1 and appendix A.2 of the paper. ``data.views.segments`` describes how pairs are sampled, and how the
lengths of the published pairs reveal their class; head and MLM are in ``objectives.segment_pairs``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from data.sources.base import Part
from data.store import Selection, TokenTable
from data.views.segments import Place, SegmentPair, next_segments, published_segments, select
from objectives.masked_lm import CITATION
from objectives.segment_pairs import SegmentPairs


class NSP(SegmentPairs):
    """Next sentence prediction.

    Args:
        published: whether to sample pairs as the published program does, whose lengths reveal their class.
        shared: see ``SegmentPairs``.
    """

    name = "nsp"
    citation = CITATION

    def __init__(self, *, published: bool = False, **shared: Any) -> None:
        super().__init__(**shared)
        self.published = published

    def places(self, store: TokenTable, part: Part, tokens: int) -> Selection:
        if self.published:
            return select(store, part, two_documents=True)
        return select(store, part, before=True, tokens=tokens - 1, two_documents=True)

    def pair(self, place: Place, room: int, rng: np.random.Generator) -> SegmentPair:
        segments = published_segments if self.published else next_segments
        return segments(place, room, rng, self.short)

    def chance_levels(self, size: int) -> dict[str, float]:
        """Returns none for published pairs, whose share of true ones depends on the documents."""
        return {} if self.published else super().chance_levels(size)
