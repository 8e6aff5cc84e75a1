"""Base of the corpora: a stream of documents, a fingerprint, and a split that never changes."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

from data.ranges import Below1, Factor

Part = Literal["train", "dev"]
PART_NAMES: dict[Part, str] = {"train": "training", "dev": "dev"}


class Document(NamedTuple):
    """One document of a source, white space untouched.

    Attributes:
        text: the text.
        group: documents of one group (a book, say) are in one part of the split; None: a group of its own.
        part: the part that the source itself assigns; None: the split's hash decides.
    """

    text: str
    group: str | None = None
    part: Part | None = None


class Source(ABC):
    """Base of all corpora.

    Args:
        fraction: share of the training documents in use, in (0, 1]; smaller shares lie within larger ones.
        dev_fraction: share of the documents (or groups) that is held out, in [0, 1).
        lowercase: whether the text is lower-cased.
    """

    name: str

    def __init__(self, *, fraction: Factor = 1.0, dev_fraction: Below1 = 0.05, lowercase: bool = False) -> None:
        self.fraction = fraction
        self.dev_fraction = dev_fraction
        self.lowercase = lowercase

    @abstractmethod
    def documents(self) -> Iterator[Document]:
        """Streams the documents, in an order that is always the same, in constant memory.

        Raises:
            UserError: if a file cannot be read.
        """

    @abstractmethod
    def identity(self) -> Iterable[str | bytes]:
        """Yields what the fingerprint is made of: equal only for the same documents in the same order."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the corpus' entry in a model card: name, where it is from, licence (None where unknown)."""

    def pinned(self) -> dict[str, Any]:
        """Returns settings that pin the text for a later run (the commit of a branch); {} if those given do."""
        return {}

    @property
    def document_units(self) -> tuple[str | int, ...]:
        """Units of the files that are documents ("line", or a number of words); () if they cannot be chosen."""
        return ()

    @property
    def total(self) -> int | None:
        """Number of documents where it is known beforehand, for a progress display."""
        return None

    @property
    def share_read(self) -> float | None:
        """Share of the text that the current ``documents()`` has read; None if it is not known."""
        return None

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digest of the text, computed once, as large files take long to read."""
        return fingerprint(*self.identity())

    def texts_key(self) -> str:
        """Returns a digest that stands for the texts of ``texts``."""
        return fingerprint("texts", self.fingerprint, str(self.dev_fraction), str(self.lowercase))

    def texts(self) -> Iterator[str]:
        """Streams the training part's texts, normalised, to train a tokenizer on.

        ``fraction`` is ignored: one tokenizer, and so one token store, serves all fractions.
        """
        for document in self.documents():
            text = normalise(document.text)
            if text and part_of(document.part, split_hash(document.group, text), self.dev_fraction) == "train":
                yield text.lower() if self.lowercase else text


def normalise(text: str) -> str:
    """Replaces each run of white space by one blank, strips both ends, and replaces lone surrogates by "?"."""
    return " ".join(text.split()).encode("utf-8", "replace").decode()


def split_hash(group: str | None, text: str) -> int:
    """Returns the 64 bits that decide a document's part: of its group, else of its normalised ``text``."""
    return _hash64(text if group is None else group, b"split")


def order_hash(text: str) -> int:
    """Returns the 64 bits that decide which fractions a document belongs to; independent of ``split_hash``."""
    return _hash64(text, b"fraction")


def weight_hash(text: str) -> int:
    """Returns the 64 bits that decide how often a mixture repeats a document; independent of the others."""
    return _hash64(text, b"weight")


def threshold(share: float) -> int:
    """Returns the number below which a ``share`` of all 64-bit hashes lies (2**64 for all of them)."""
    return math.floor(share * 2.0**64)


def part_of(part: Part | None, split: int, dev_fraction: float) -> Part:
    """Returns the part of a document: its own where it has one, else "dev" for the lowest split hashes."""
    return part or ("dev" if split < threshold(dev_fraction) else "train")


def fingerprint(*pieces: str | bytes) -> str:
    """Returns a hexadecimal digest of ``pieces``, which also depends on where one ends and the next begins."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        value = piece.encode() if isinstance(piece, str) else piece
        digest.update(len(value).to_bytes(8, "little"))
        digest.update(value)
    return digest.hexdigest()


def _hash64(text: str, purpose: bytes) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=purpose)
    return int.from_bytes(digest.digest(), "little")
