"""Several named corpora read as one, each with its own weight and its own share of held-out documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from data.errors import UserError, reading, rename_keys
from data.sources.base import Example, Source, normalise, text_hash, threshold
from data.sources.nltk_corpus import NltkCorpus
from data.sources.pydocs import Pydocs
from data.sources.text import Text

MOST_COPIES = 1000  # of a document in an epoch
KINDS: dict[str, type[Source]] = {"text": Text, "hub": Text, "nltk": NltkCorpus, "pydocs": Pydocs}


class Mixture(Source):
    """Documents of several corpora; a loader shuffles them together.

    Each corpus is split as it would be on its own, with ``dev_fraction`` as its default. The weight of a corpus
    is the number of times that its training documents occur in an epoch: 1 by default; 2.5: all twice, and half
    of them a third time; 0.5: half of them once (those of a smaller weight are among those of a larger one).
    Held-out documents occur once.

    Args:
        corpora: by a name of your choice, the settings of each: ``kind`` ("text", the default, "hub", "nltk" or
            "pydocs"), ``weight``, and the arguments of that corpus.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if a corpus has unknown or wrong settings.
    """

    name = "mixture"

    def __init__(self, *, corpora: Mapping[str, Any], **shared: Any) -> None:
        super().__init__(**shared)
        self.corpora = corpora
        self.sources: dict[str, tuple[Source, float]] = {}
        for name, settings in corpora.items():
            key = f"corpus.corpora.{name}"
            with reading("corpus", key), rename_keys(corpus=key):
                options = {"kind": "text", "weight": 1.0, "dev_fraction": self.dev_fraction, **settings}
                kind, weight = KINDS[options.pop("kind")], float(options.pop("weight"))
                if not 0 <= weight <= MOST_COPIES:
                    raise UserError(f"must be from 0 to {MOST_COPIES}", key="corpus.weight")
                # Two settings are those of the whole, and a corpus that has them, too, is refused.
                self.sources[name] = kind(**options, fraction=1.0, lowercase=False), weight

    def examples(self) -> Iterator[Example]:
        for source, weight in self.sources.values():
            for example in source.examples():
                text = normalise(example.texts[0])
                part = source.assign_part(example._replace(texts=(text,)))
                again = text_hash(text, b"weight") < threshold(weight % 1)
                repeats = 1 if part == "dev" else math.floor(weight) + again
                if repeats:
                    yield example._replace(part=part, repeats=repeats)

    def identity(self) -> Iterator[str]:
        for source, weight in self.sources.values():
            yield f"{source.name} {weight} {source.dev_fraction} {source.fingerprint}"

    def pinned_settings(self) -> dict[str, Any]:
        pinned = {
            name: {**self.corpora[name], **source.pinned_settings()} for name, (source, _) in self.sources.items()
        }
        return {"corpora": pinned}

    def describe(self) -> dict[str, Any]:
        where = [f"{source.describe()['where']}, weight {weight:g}" for source, weight in self.sources.values()]
        return {"name": self.name, "where": "; ".join(where), "licence": None}
