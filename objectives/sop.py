"""Sentence order prediction: whether two neighbouring segments A and B are in order (Lan et al. 2020, ALBERT).

Section 3.1 of the paper. ``data.views.segments`` describes how pairs are sampled; head and MLM are in
``objectives.segment_pairs``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore
from data.views.segments import Place, SegmentPair, ordered_segments, select
from objectives.base import Requirements
from objectives.segment_pairs import SegmentPairs


class SOP(SegmentPairs):
    """Sentence order prediction; all arguments are those of ``SegmentPairs``."""

    name = "sop"
    citation = """@inproceedings{lan-etal-2020-albert,
  title = {{ALBERT}: A Lite {BERT} for Self-supervised Learning of Language Representations},
  author = {Lan, Zhenzhong and Chen, Mingda and Goodman, Sebastian and Gimpel, Kevin and Sharma, Piyush and Soricut, Radu},
  booktitle = {Proceedings of ICLR},
  year = {2020}
}"""  # noqa: E501

    @property
    def requirements(self) -> Requirements:
        return replace(super().requirements, word_order=True)

    def places(self, store: TokenStore, part: Part, tokens: int) -> Selection:
        return select(store, part, behind=1)

    def pair(self, place: Place, room: int, rng: np.random.Generator) -> SegmentPair:
        return ordered_segments(place, room, rng, self.short)
