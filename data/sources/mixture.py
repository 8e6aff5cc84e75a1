"""Several named corpora read as one, each with its own weight and its own share of held-out documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from data.errors import UserError, reading, reason, rename_keys
from data.sources.base import (
    Document,
    Source,
    fingerprint,
    normalise,
    part_of,
    split_hash,
    threshold,
    weight_hash,
)
from data.sources.hub import Hub
from data.sources.nltk_corpus import NltkCorpus
from data.sources.pydocs import Pydocs
from data.sources.text import Text

KINDS: dict[str, type[Source]] = {"text": Text, "hub": Hub, "nltk": NltkCorpus, "pydocs": Pydocs}
Repeats = Annotated[float, Field(gt=0, le=100)]  # weight of a corpus


class Mixture(Source):
    """Documents of several corpora; a loader shuffles them together.

    Each corpus is split as it would be on its own, with ``dev_fraction`` as its default. The weight of a corpus
    is the number of times that its training documents occur in an epoch: 1 by default; 2.5: all twice, and half
    of them a third time; 0.5: half of them once (those of a smaller weight are among those of a larger one).
    Repeated documents are stored repeatedly. Held-out documents occur once.

    Args:
        corpora: by a name of your choice, the settings of each: ``kind`` ("text", the default, "hub", "nltk" or
            "pydocs"), ``weight``, and the arguments of that corpus.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if no corpus is named, or one has unknown or wrong settings.
    """

    name = "mixture"

    def __init__(self, *, corpora: Mapping[str, Any], **shared: Any) -> None:
        super().__init__(**shared)
        if not corpora:
            hint = "'corpus.corpora.books={path: books.jsonl.gz}' adds one called books."
            raise UserError("names no corpus", key="corpus.corpora", hint=hint)
        self.corpora = corpora
        self.sources: dict[str, tuple[Source, float]] = {
            name: _source(settings, f"corpus.corpora.{name}", self.dev_fraction)
            for name, settings in corpora.items()
        }

    def documents(self) -> Iterator[Document]:
        for source, weight in self.sources.values():
            for document in source.documents():
                text = normalise(document.text)
                part = part_of(document.part, split_hash(document.group, text), source.dev_fraction)
                times = 1 if part == "dev" else _times(text, weight)
                yield from [Document(document.text, document.group, part)] * times

    def identity(self) -> Iterator[str]:
        for source, weight in self.sources.values():
            yield f"{source.name} {weight} {source.dev_fraction} {fingerprint(*source.identity())}"

    def pinned(self) -> dict[str, Any]:
        pins = {name: source.pinned() for name, (source, _) in self.sources.items()}
        return {"corpora": {name: {**settings, **pins[name]} for name, settings in self.corpora.items()}}

    def describe(self) -> dict[str, Any]:
        parts = [
            f"{name} ({source.describe()['where']}{'' if weight == 1 else f', weight {weight:g}'})"
            for name, (source, weight) in self.sources.items()
        ]
        return {"name": self.name, "where": "; ".join(parts), "licence": None}


def _source(settings: Mapping[str, Any], key: str, dev_fraction: float) -> tuple[Source, float]:
    """Builds one corpus and reads its weight; its errors are about keys below ``key``."""
    with reading("mapping with the settings of a corpus", key):
        arguments = {"kind": "text", "weight": 1.0, "dev_fraction": dev_fraction, **settings}
    source = KINDS.get(str(arguments["kind"]), Text)
    types: dict[str, Any] = {"kind": Literal[tuple(KINDS)], "weight": Repeats}
    for kind in (Source, source):
        types |= get_type_hints(kind.__init__, include_extras=True)
    for name, value in arguments.items():
        if name not in types or name in ("fraction", "lowercase"):  # these two are settings of the whole
            raise UserError("no such key", key=f"{key}.{name}")
        try:
            TypeAdapter(types[name]).validate_python(value)
        except ValidationError as error:
            raise UserError(reason(error), key=f"{key}.{name}") from None
    weight, _ = arguments.pop("weight"), arguments.pop("kind")
    with reading("corpus", key), rename_keys(corpus=key):
        return source(**arguments), float(weight)


def _times(text: str, weight: float) -> int:
    """Returns how many times a training document occurs in an epoch."""
    return math.floor(weight) + (weight_hash(text) < threshold(weight % 1))
