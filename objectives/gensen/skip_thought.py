"""Skip-thought (Kiros et al. 2015): from a sentence of the corpus the next one (STN) and the previous (STP)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.store import prepare
from data.views import neighbours
from data.views.neighbours import Neighbours, NeighbourUnit
from encoders.starts import corpus_vocabulary
from objectives.base import Corpus, Material
from objectives.gensen.base import Sizes, blamed
from objectives.gensen.sequences import SequenceTask, SequenceUnit

OFFSETS = {"stn": 1, "stp": -1}


class SkipThought(SequenceTask):
    """One sentence, and a decoder for each of its neighbours; both are in one update, as published.

    The decoders have one vocabulary, of the run's corpus. Its sentences are tokenised once more under it, as the
    encoder may read other units than words.

    Args:
        parts: "stn", "stp" or both.
        sizes: see ``Sizes``.
    """

    def __init__(self, parts: Sequence[str], sizes: Sizes) -> None:
        super().__init__("skip_thought", parts, sizes)
        self.offsets = [OFFSETS[part] for part in parts]

    def split(self, unit: NeighbourUnit) -> SequenceUnit:
        return SequenceUnit(unit.sentence, unit.neighbours)

    def prepare(self, corpus: Corpus) -> Material:
        corpus.progress("words", 0, None)
        with blamed("tasks"):
            self.tokenizer = corpus_vocabulary(
                corpus.source.texts,
                self.sizes.vocab_size,
                self.sizes.min_count,
                True,
                self.sizes.max_length,
                corpus.cache / "tokenizers",
                corpus.source.texts_key,
            )
        targets = prepare(
            corpus.source,
            self.tokenizer,
            cache=corpus.cache / "stores",
            sentences=corpus.store.sentences,
            progress=lambda done, total, _: corpus.progress("sentences to predict", done, total),
        )
        assert len(targets) == len(corpus.store), "the same splitter makes the same sentences"
        train, dev = (neighbours.select(corpus.store, part, self.offsets) for part in ("train", "dev"))
        beside = np.stack([np.roll(targets.lengths, -offset) for offset in self.offsets], axis=1)
        units = Neighbours(corpus.store, targets, self.offsets)
        return self.found(units, train, dev, corpus.store.lengths, beside)
