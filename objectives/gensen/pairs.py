"""Translation and parsing: predict the second text of a pair from the first (Subramanian et al. 2018, section 4).

Translation predicts a sentence in French or German from an English one, parsing the sentence's constituency tree
as a sequence of brackets (``data.sources.trees``). Words of all languages are split by ``data.vocabulary.WORDS``,
which is made for English: French "l'homme" stays one word, which a French tokeniser splits. Perplexities are per
such word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from data.pairs import PairSource, PairUnit
from data.sources.parallel import Parallel
from data.sources.trees import Trees
from objectives.base import Corpus, TaskData
from objectives.gensen.base import Sizes, errors_of, pair_source
from objectives.gensen.sequences import SequenceTask, SequenceUnit

PairName = Literal["fr", "de", "parse"]
SOURCES: dict[PairName, type[Parallel | Trees]] = {"fr": Parallel, "de": Parallel, "parse": Trees}


class PairTask(SequenceTask):
    """Sequence task on pairs of text; targets are lower-cased, but for brackets.

    Args:
        name: "fr", "de" (whatever language ``data`` is in) or "parse".
        data: arguments of the task's source in ``SOURCES``; None: generated pairs.
        synthetic_pairs: number of generated pairs.
        sizes: see ``Sizes``.

    Raises:
        ValueError, UserError: as the source does.
    """

    source: PairSource

    def __init__(self, name: PairName, data: Mapping[str, Any] | None, synthetic_pairs: int, sizes: Sizes) -> None:
        super().__init__(name, (name,), sizes, pair_source(SOURCES[name], name, data, synthetic_pairs))

    def split(self, unit: PairUnit) -> SequenceUnit:
        return SequenceUnit(unit.sources[0], (unit.target,))

    def prepare(self, corpus: Corpus) -> TaskData:
        source = self.source
        with errors_of(self.name):
            corpus.progress(f"words of {self.name}", 0, None)
            self.make_vocabulary(
                corpus, source.target_texts, lambda: f"targets {source.texts_key()}", symbols=source.symbols
            )
            store, train, dev = self.pair_store(corpus, self.tokenizer)
        return self.set_data(store, train, dev, store.source_lengths[:, 0], store.target_lengths[:, None])
