"""Base of corpora and sources of pairs: a stream of examples, a fingerprint, and a split that never changes."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import validate_call

from data.ranges import Below1, Factor

Part = Literal["train", "dev"]


class Example(NamedTuple):
    """One example of a source, white space untouched.

    Attributes:
        texts: a document; a sentence and its translation or tree; a premise and its hypothesis.
        label: number of the class; -1: none.
        group: examples of one group (a book, say) are in one part of the split; None: those with the same first
            text are.
        part: the part that the source itself assigns; None: the split's hash decides.
        repeats: how many times the example occurs in an epoch; it is stored once.
    """

    texts: tuple[str, ...]
    label: int = -1
    group: str | None = None
    part: Part | None = None
    repeats: int = 1


class Source(ABC):
    """Base of all corpora and sources of pairs.

    Args:
        fraction: share of the training examples in use, in (0, 1]; smaller shares lie within larger ones.
        dev_fraction: share of the examples (or groups) that is held out, in [0, 1).
        lowercase: whether the texts are lower-cased.

    Attributes:
        name: of the kind of source.
        columns: texts of an example.
        classes: names of the classes; none where examples have no label.
        synthetic: whether a program generated the texts.
        symbols: whether the last text is symbols separated by blanks ("(NP XX )NP"), not prose.
    """

    name: str
    columns = 1
    classes: tuple[str, ...] = ()
    synthetic = False
    symbols = False

    @validate_call
    def __init__(self, *, fraction: Factor = 1.0, dev_fraction: Below1 = 0.05, lowercase: bool = False) -> None:
        self.fraction = fraction
        self.dev_fraction = dev_fraction
        self.lowercase = lowercase

    @abstractmethod
    def examples(self) -> Iterator[Example]:
        """Streams the examples, in an order that is always the same, in constant memory.

        Raises:
            UserError: if a file cannot be read.
        """

    @abstractmethod
    def identity(self) -> Iterable[str | bytes]:
        """Yields what the fingerprint is made of: equal only for the same examples in the same order."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the source's entry in a model card: name, where it is from, licence (None where unknown)."""

    def pinned_settings(self) -> dict[str, Any]:
        """Returns settings that pin the text for a later run (the commit of a branch); {} if those given do."""
        return {}

    def read(self, clean: Callable[[str], str] | None = None) -> Iterator[Example]:
        """Streams ``examples`` with texts by ``clean`` (None: ``normalise``), without those that lack a text."""
        for example in self.examples():
            texts = tuple(map(clean or normalise, example.texts))
            if all(texts):
                yield example._replace(texts=texts)

    def assign_part(self, example: Example) -> Part:
        """Returns the part of an example with normalised texts."""
        return choose_part(example.part, split_hash(example.group, example.texts[0]), self.dev_fraction)

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digest of the text, computed once, as large files take long to read."""
        return fingerprint(*self.identity())

    def texts_key(self) -> str:
        """Returns a digest that stands for the texts of ``texts``."""
        return fingerprint("texts", self.fingerprint, str(self.dev_fraction), str(self.lowercase))

    def texts(self, column: int | None = 0) -> Iterator[str]:
        """Streams the training part's texts, normalised, to train a tokenizer on.

        ``fraction`` is ignored: one tokenizer, and so one token store, serves all fractions.

        Args:
            column: number of the text within an example; None: all of its texts.
        """
        for example in self.read():
            if self.assign_part(example) == "train":
                texts = example.texts if column is None else example.texts[column : column + 1]
                for text in texts * example.repeats:
                    yield text.lower() if self.lowercase else text


def normalise(text: str) -> str:
    """Replaces each run of white space by one blank, strips both ends, and replaces lone surrogates by "?"."""
    return " ".join(text.split()).encode("utf-8", "replace").decode()


def split_hash(group: str | None, text: str) -> int:
    """Returns the 64-bit hash that decides the part: of the group, else of the normalised first ``text``."""
    return text_hash(text if group is None else group, b"split")


def text_hash(text: str, purpose: bytes = b"fraction") -> int:
    """Returns a 64-bit hash: by default the one that decides which fractions hold an example.

    Hashes for different purposes ("split", "weight" of a mixture) are independent.
    """
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=purpose)
    return int.from_bytes(digest.digest(), "little")


def threshold(share: float) -> int:
    """Returns the number below which a ``share`` of all 64-bit hashes lies (2**64 for all of them)."""
    return math.floor(share * 2.0**64)


def choose_part(part: Part | None, split: int, dev_fraction: float) -> Part:
    """Returns ``part`` if the source assigned it, else "dev" for the lowest split hashes."""
    return part or ("dev" if split < threshold(dev_fraction) else "train")


def fingerprint(*pieces: str | bytes) -> str:
    """Returns a hexadecimal digest of ``pieces``, which also depends on where one ends and the next begins."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        value = piece.encode() if isinstance(piece, str) else piece
        digest.update(len(value).to_bytes(8, "little"))
        digest.update(value)
    return digest.hexdigest()
