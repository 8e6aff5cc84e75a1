"""Sentence order prediction: whether A and B, neighbours in a document, are in order (Lan et al. 2020, ALBERT).

Section 3.1. ``data.views.segments`` says how pairs are drawn; head and MLM are in ``objectives.segment_pairs``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore
from data.views.segments import Pair, Place, ordered_segments, select
from objectives.base import Needs
from objectives.segment_pairs import SegmentPairs


class SOP(SegmentPairs):
    """Sentence order prediction.

    Args:
        batch_size, max_length, short, mlm_weight, mlm_probability: see ``SegmentPairs``.

    Raises:
        ValueError: if an argument is out of range.
    """

    name = "sop"
    citation = """@inproceedings{lan-etal-2020-albert,
  title = {{ALBERT}: A Lite {BERT} for Self-supervised Learning of Language Representations},
  author = {Lan, Zhenzhong and Chen, Mingda and Goodman, Sebastian and Gimpel, Kevin and Sharma, Piyush and Soricut, Radu},
  booktitle = {Proceedings of ICLR},
  year = {2020}
}"""  # noqa: E501

    @property
    def needs(self) -> Needs:
        return replace(super().needs, order=True)

    def places(self, store: TokenStore, part: Part, tokens: int) -> Selection:
        return select(store, part, behind=1)

    def pair(self, place: Place, room: int, rng: np.random.Generator) -> Pair:
        return ordered_segments(place, room, rng, self.short)
