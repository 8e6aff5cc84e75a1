"""Next sentence prediction: whether B is what comes after A, or from another document (Devlin et al. 2019).

Section 3.1 and appendix A.2. ``data.views.segments`` says how pairs are drawn, and how the published ones give
their class away by their lengths; head and MLM are in ``objectives.segment_pairs``.
"""

from __future__ import annotations

import numpy as np

from data.ranges import AtLeast8, Proportion, Share, Size, Weight
from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore
from data.views.segments import Pair, Place, next_segments, published_segments, select
from objectives.masked_lm import CITATION
from objectives.segment_pairs import SegmentPairs


class NSP(SegmentPairs):
    """Next sentence prediction.

    Args:
        batch_size, max_length, short, mlm_weight, mlm_probability: see ``SegmentPairs``.
        published: draw pairs as the published program does, whose lengths tell their classes apart.

    Raises:
        ValueError: if an argument is out of range.
    """

    name = "nsp"
    citation = CITATION

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        max_length: AtLeast8 = 128,
        short: Share = 0.1,
        published: bool = False,
        mlm_weight: Weight = 1.0,
        mlm_probability: Proportion = 0.15,
    ) -> None:
        super().__init__(
            batch_size=batch_size,
            max_length=max_length,
            short=short,
            mlm_weight=mlm_weight,
            mlm_probability=mlm_probability,
        )
        self.published = published

    def places(self, store: TokenStore, part: Part, tokens: int) -> Selection:
        if self.published:
            return select(store, part, others=True)
        return select(store, part, before=True, tokens=tokens - 1, others=True, shorter="objective.max_length")

    def chances(self) -> dict[str, float]:
        """Of the published pairs fewer than half are true, by how many depends on the documents."""
        return {} if self.published else super().chances()

    def pair(self, place: Place, room: int, rng: np.random.Generator) -> Pair:
        draw = published_segments if self.published else next_segments
        return draw(place, room, rng, self.short)
