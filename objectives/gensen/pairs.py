"""A sequence task whose examples are pairs of text from a source of their own."""

from __future__ import annotations

from functools import partial

from data.pairs import PairSource, PairUnit, prepare_pairs
from encoders.starts import corpus_vocabulary
from objectives.base import Corpus, Material
from objectives.gensen.base import Sizes, blamed
from objectives.gensen.sequences import SequenceTask, SequenceUnit


class PairTask(SequenceTask):
    """From the first text of a pair the second one, lower-cased unless it is of symbols.

    Args:
        name: of the task, its decoder and its loss part.
        source: the pairs.
        sizes: see ``Sizes``.
    """

    source: PairSource

    def __init__(self, name: str, source: PairSource, sizes: Sizes) -> None:
        super().__init__(name, (name,), sizes, source)

    def split(self, unit: PairUnit) -> SequenceUnit:
        return SequenceUnit(unit.sources[0], (unit.target,))

    def prepare(self, corpus: Corpus) -> Material:
        source, cache = self.source, corpus.cache
        with blamed(self.name):
            corpus.progress(f"words of {self.name}", 0, None)
            self.tokenizer = corpus_vocabulary(
                source.target_texts,
                self.sizes.vocab_size,
                self.sizes.min_count,
                not source.symbols,
                self.sizes.max_length,
                cache / "tokenizers",
                lambda: f"targets {source.texts_key()}",
                symbols=source.symbols,
            )
            store = prepare_pairs(
                source,
                corpus.tokenizer,
                self.tokenizer,
                cache=cache / "stores",
                progress=partial(corpus.progress, self.name),
            )
            train, dev = store.select("train"), store.select("dev")
        return self.found(store, train, dev, store.source_lengths[:, 0], store.target_lengths[:, None])
