"""Skip-thought (Kiros et al. 2015): predicts the next sentence (STN) and the previous one (STP)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.store import prepare
from data.views import neighbours
from data.views.neighbours import Neighbours, NeighbourUnit
from objectives.base import Corpus, TaskData
from objectives.gensen.base import Sizes, errors_of
from objectives.gensen.sequences import SequenceTask, SequenceUnit

OFFSETS = {"stn": 1, "stp": -1}


class SkipThought(SequenceTask):
    """Predicts the next sentence, the previous one, or both in the same update (as published).

    The decoders share a vocabulary of the words of the run's corpus. The sentences are tokenised a second time
    with it, as the encoder's tokens need not be words.

    Args:
        parts: "stn", "stp" or both.
        sizes: see ``Sizes``.
    """

    def __init__(self, parts: Sequence[str], sizes: Sizes) -> None:
        super().__init__("skip_thought", parts, sizes)
        self.offsets = [OFFSETS[part] for part in parts]

    def split(self, unit: NeighbourUnit) -> SequenceUnit:
        return SequenceUnit(unit.sentence, unit.neighbours)

    def prepare(self, corpus: Corpus) -> TaskData:
        corpus.progress("words", 0, None)
        with errors_of("tasks"):
            self.make_vocabulary(corpus, corpus.source.texts, corpus.source.texts_key)
        targets = prepare(
            corpus.source,
            self.tokenizer,
            cache=corpus.cache / "stores",
            sentences=corpus.store.sentences,
            progress=lambda done, total, _: corpus.progress("sentences to predict", done, total),
        )
        assert len(targets) == len(corpus.store), "the same splitter makes the same sentences"
        train, dev = (neighbours.select(corpus.store, part, self.offsets) for part in ("train", "dev"))
        lengths = np.stack([np.roll(targets.lengths, -offset) for offset in self.offsets], axis=1)
        units = Neighbours(corpus.store, targets, self.offsets)
        return self.set_data(units, train, dev, corpus.store.lengths, lengths)
