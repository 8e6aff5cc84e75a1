"""Sentence order prediction: whether two neighbouring segments A and B are in order (Lan et al. 2020, ALBERT).

Section 3.1 of the paper. ``data.views.segments`` describes how pairs are sampled; head and MLM are in
``objectives.segment_pairs``.
"""

from __future__ import annotations

import numpy as np

from data.sources.base import Part
from data.store import Selection, TokenTable
from data.views.segments import Place, SegmentPair, ordered_segments, select
from objectives.segment_pairs import SegmentPairs


class SOP(SegmentPairs):
    """Sentence order prediction; all arguments are those of ``SegmentPairs``."""

    name = "sop"
    word_order = True
    version = 2  # version 1 always left out sentences at the end
    citation = """@inproceedings{lan-etal-2020-albert,
  title = {{ALBERT}: A Lite {BERT} for Self-supervised Learning of Language Representations},
  author = {Lan, Zhenzhong and Chen, Mingda and Goodman, Sebastian and Gimpel, Kevin and Sharma, Piyush and Soricut, Radu},
  booktitle = {Proceedings of ICLR},
  year = {2020}
}"""  # noqa: E501

    def places(self, store: TokenTable, part: Part, tokens: int) -> Selection:
        return select(store, part, min_tokens_after=1)

    def pair(self, place: Place, room: int, rng: np.random.Generator) -> SegmentPair:
        return ordered_segments(place, room, rng, self.short)
