"""Generated sentence pairs for tasks without data of their own: translations, parses, inferences.

A small grammar generated them (data/samples/README.md). They show how a task works; scores on them are no evidence
of how well an encoder represents natural language.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from data.ranges import Below1
from data.sources.base import Example, Source
from data.sources.pairs import CLASSES

FOLDER = Path(__file__).resolve().parents[1] / "samples"
FILES = {"fr": "translation", "de": "translation", "parse": "parsing", "nli": "inference", "pairs": "inference"}
MOST = 20_000  # pairs of each kind
Generated = Annotated[int, Field(ge=1, le=MOST)]  # number of generated pairs


class Samples(Source):
    """The first generated pairs of one kind.

    Each hypothesis of "nli" comes with one premise of every class, so that it does not give the class away; the
    three are held out together.

    Args:
        kind: "fr" or "de" (translations of the same English sentences), "parse" (words separated by blanks, and
            the tree in one line, see ``data.sources.trees``), "nli" (premise, hypothesis and class) or "pairs"
            (the same with the hypothesis first, so that equal first texts have second ones of every class).
        pairs: number of pairs.
        dev_fraction: see Source.
    """

    name = "samples"
    columns = 2
    synthetic = True

    def __init__(
        self,
        *,
        kind: Literal["fr", "de", "parse", "nli", "pairs"],
        pairs: Generated = MOST,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(dev_fraction=dev_fraction)
        self.kind, self.pairs = kind, pairs
        self.symbols = kind == "parse"
        self.classes = CLASSES if FILES[kind] == "inference" else ()
        self._file = FOLDER / f"{FILES[kind]}.tsv.bz2"

    def examples(self) -> Iterator[Example]:
        return islice(self._read(), self.pairs)

    def identity(self) -> Iterator[str | bytes]:
        yield f"{self.kind} {self.pairs}"
        yield self._file.read_bytes()

    def describe(self) -> dict[str, Any]:
        where = f"the first {self.pairs:,} pairs, which a program generated; no person wrote them"
        name = f"data/samples/{FILES[self.kind]}"
        return {"name": name, "where": where, "licence": "that of this software", "synthetic": True}

    def _read(self) -> Iterator[Example]:
        with bz2.open(self._file, "rt", encoding="utf-8") as lines:
            for line in lines:
                first, *others = line.rstrip("\n").split("\t")
                if self.classes:
                    for label, premise in enumerate(others):
                        texts = (first, premise) if self.kind == "pairs" else (premise, first)
                        yield Example(texts, label, first)
                else:
                    yield Example((first, others[self.kind == "de"]))
