"""Several named corpora read as one, each with its own weight and its own share of held-out documents."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from data.errors import UserError
from data.schema import fault
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
OF_THE_WHOLE = ("fraction", "lowercase")  # settings that only the mixture takes, not a corpus of it
HEAVIEST = 100.0  # largest weight of a corpus


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
        ValueError: if a value is out of its range.
        UserError: if no corpus is named, or one has unknown or wrong settings.
    """

    name = "mixture"

    def __init__(self, *, corpora: Mapping[str, Any], **shared: Any) -> None:
        super().__init__(**shared)
        if not corpora:
            raise UserError(
                "corpus.corpora names no corpus: '+corpus.corpora.books={path: books.jsonl.gz}' adds one called "
                "books."
            )
        self.corpora = corpora
        self.sources: dict[str, tuple[Source, float]] = {
            name: _source(f"corpus.corpora.{name}", settings, self.dev_fraction)
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


def _source(key: str, settings: Any, dev_fraction: float) -> tuple[Source, float]:
    """Builds one corpus and reads its weight; faults are prefixed with the corpus' own ``key``."""
    if not isinstance(settings, Mapping):
        raise UserError(f"{key} must be a mapping, as {{path: books.jsonl.gz}}. Got {settings!r} instead.")
    own = dict(settings)
    kind, weight = own.pop("kind", "text"), own.pop("weight", 1.0)
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"{key}.kind must be one of {', '.join(KINDS)}. Got {kind!r} instead.")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= HEAVIEST:
        raise UserError(f"{key}.weight must be a number above 0 and at most {HEAVIEST:g}. Got {weight!r} instead.")
    parameters = inspect.signature(KINDS[kind]).parameters
    hints = get_type_hints(KINDS[kind].__init__, include_extras=True)
    taken = [name for name in parameters if name not in OF_THE_WHOLE]
    for name, value in own.items():
        if name not in taken:
            near = difflib.get_close_matches(name, taken, n=1)
            hint = f" Did you mean {key}.{near[0]}?" if near else f" It takes kind, weight, {', '.join(taken)}."
            raise UserError(f"{key}.{name}: no such key.{hint}")
        if line := fault(hints[name], value):
            raise UserError(f"{key}.{name} {line}")
    for name in taken:
        if parameters[name].default is inspect.Parameter.empty and name not in own:
            raise UserError(f"{key}.{name} is not set.")
    try:
        return KINDS[kind](**{"dev_fraction": dev_fraction} | own), float(weight)
    except (UserError, ValueError) as error:
        raise UserError(str(error).replace("corpus.", f"{key}.")) from None


def _times(text: str, weight: float) -> int:
    """Returns how many times a training document occurs in an epoch."""
    return math.floor(weight) + (weight_hash(text) < threshold(weight % 1))
