"""Pairs of text tokenised once: a column of token ids for each source and one for the target.

A pair is (English sentence, its translation), (sentence, its parse in brackets) or (premise, hypothesis; class).
Which pairs are held out follows from a hash, as with documents (``data.sources.base``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data.errors import UserError
from data.files import write_json
from data.mapped import META, PARTS, ColumnWriter, MappedStore, Progress, cached, entry
from data.ranges import Below1
from data.selection import Selection
from data.sources.base import PART_NAMES, Part, fingerprint, normalise, part_of, split_hash
from data.tokenising import CHUNK_CHARACTERS, Tokenise, plain_tokenise

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

FORMAT = "1"  # version of the files below and of the normalisation; part of every fingerprint
CLASS = np.dtype("u1")  # of a target that is a class
EMPTY = "without text"  # a reason in ``skipped``


class Pair(NamedTuple):
    """One example of a source.

    Attributes:
        sources: texts that are encoded.
        target: the text, or the number of the class, that is predicted.
        part: the part that the source itself assigns; None: the split's hash decides.
        group: pairs of one group are in one part of the split; None: those of the same first source are.
    """

    sources: tuple[str, ...]
    target: str | int
    part: Part | None = None
    group: str | None = None


class PairSource(ABC):
    """Base of all sources of pairs.

    Args:
        dev_fraction: share of the pairs (or groups) that is held out, in [0, 1).

    Attributes:
        name: of the kind of source; in messages, the prefix of its settings.
        synthetic: whether a program generated the text.
        n_sources: number of texts of a pair that are encoded.
        classes: names of the classes; none where the target is a text.
        symbols: whether target texts are symbols separated by blanks ("(NP XX )NP"), not prose.
        skipped: how many pairs the last reading left out for which reason.
    """

    name: str
    synthetic: bool = False
    n_sources: int = 1
    classes: tuple[str, ...] = ()
    symbols: bool = False

    def __init__(self, *, dev_fraction: Below1 = 0.05) -> None:
        self.dev_fraction = dev_fraction
        self.skipped: Counter[str] = Counter()

    @abstractmethod
    def pairs(self) -> Iterator[Pair]:
        """Streams the pairs, in an order that is always the same, in constant memory; counts ``skipped`` ones."""

    @abstractmethod
    def identity(self) -> Iterable[str | bytes]:
        """Yields what the fingerprint is made of: equal only for the same pairs in the same order."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the pairs' entry in a model card: name, where they are from, licence (None where unknown)."""

    @property
    def total(self) -> int | None:
        """Number of pairs where it is known beforehand, for a progress display."""
        return None

    def read(self) -> Iterator[Pair]:
        """Yields ``pairs`` with white space normalised; those without text are left out and counted.

        Raises:
            UserError: if a file cannot be read.
        """
        self.skipped.clear()
        for pair in self.pairs():
            sources = tuple(map(normalise, pair.sources))
            target = normalise(pair.target) if isinstance(pair.target, str) else pair.target
            if target == "" or not all(sources):
                self.skipped[EMPTY] += 1
                continue
            group = None if pair.group is None else normalise(pair.group)
            yield Pair(sources, target, pair.part, group)

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digest of the pairs, computed once, as large files take long to read."""
        return fingerprint(self.name, *self.identity())

    def texts_key(self) -> str:
        """Returns a digest that stands for the texts of ``source_texts`` and ``target_texts``."""
        return fingerprint("pairs", self.fingerprint, str(self.dev_fraction))

    def part_of(self, pair: Pair) -> Part:
        """Returns the part of a pair of normalised texts."""
        return part_of(pair.part, pair_hash(pair), self.dev_fraction)

    def source_texts(self) -> Iterator[str]:
        """Streams the training part's source texts, to train a tokenizer on."""
        for pair in self.read():
            if self.part_of(pair) == "train":
                yield from pair.sources

    def target_texts(self) -> Iterator[str]:
        """Streams the training part's target texts, to train a tokenizer on; none where targets are classes."""
        for pair in self.read():
            if isinstance(pair.target, str) and self.part_of(pair) == "train":
                yield pair.target


def pair_hash(pair: Pair) -> int:
    """Returns the 64 bits that decide the part of a pair of normalised texts."""
    return split_hash(pair.group, pair.sources[0])


class PairUnit(NamedTuple):
    """One pair's content token ids.

    Attributes:
        sources: an array of shape (n,) for each source.
        target: of shape (m,); where targets are classes, the number of the class, of shape (1,).
    """

    sources: tuple[np.ndarray, ...]
    target: np.ndarray


class PairStore(MappedStore):
    """The token ids of n pairs, read from disk on access.

    Args:
        folder: made by ``prepare_pairs``.
        dev_fraction: attribute of the source; not stored in the files.

    Attributes:
        fingerprint: hexadecimal digest of pairs, tokenizers and normalisation together.
        classes: names of the classes; none where the target is a text.
        synthetic: whether a program generated the text.
        skipped: how many pairs were left out for which reason when the files were made.
        source_lengths: content tokens of the S sources of each pair, of shape (n, S), int64.
        target_lengths: of each target, of shape (n,), int64.

    Raises:
        UserError: if files are missing, or their lengths do not match the index.
    """

    def __init__(self, folder: Path, *, dev_fraction: float = 0.05) -> None:
        super().__init__(folder, dev_fraction=dev_fraction)
        self.classes: tuple[str, ...] = tuple(self._meta["classes"])
        self.synthetic: bool = self._meta["synthetic"]
        self.skipped: Mapping[str, int] = self._meta["skipped"]
        self._name: str = self._meta["name"]
        self.source_lengths, self.target_lengths = self._lengths[:, :-1], self._lengths[:, -1]

    def _layout(self, meta: Mapping[str, Any]) -> tuple[int, np.dtype, Mapping[str, np.dtype]]:
        dtypes = list(map(np.dtype, meta["dtypes"]))
        return meta["pairs"], _entry(len(dtypes)), dict(zip(_names(len(dtypes)), dtypes, strict=True))

    def __getitem__(self, i: int) -> PairUnit:
        """Returns the content ids of pair ``i``, read-only."""
        *sources, target = self.cells(i)
        return PairUnit(tuple(sources), target)

    def select(self, part: Part) -> Selection:
        """Returns the pairs of ``part``, "train" or "dev", each of whose texts has a token.

        Raises:
            UserError: if none is left.
        """
        inside = self.in_part(part)
        texts = self.source_lengths if self.classes else self._lengths
        selected = Selection(np.flatnonzero(inside), {}).narrowed(texts.min(axis=1) > 0, "too short")
        if not len(selected.indices):
            why = "all are too short" if inside.any() else f"with dev_fraction={self.dev_fraction}"
            raise UserError(
                f"none of the {len(self):,} pairs can be used in the {PART_NAMES[part]} part ({why})",
                key=self._name if self.synthetic else f"{self._name}.dev_fraction",
            )
        return selected


def prepare_pairs(
    source: PairSource,
    tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast | None,
    *,
    cache: Path,
    progress: Progress | None = None,
) -> PairStore:
    """Returns the store of ``source`` under the tokenizers; makes its files if ``cache`` lacks them.

    White space is normalised, texts for a byte-level BPE get one leading blank, and no special token is added.
    Memory does not grow with the text; tokenising runs in the tokenizers' own threads. A second process that needs
    the same store waits for the first. If a process is killed, the next one continues after the last finished
    shard.

    Args:
        source: the pairs.
        tokenizer: of the source texts; it is not changed.
        target_tokenizer: of the target texts; None where targets are classes.
        cache: folder of all stores.
        progress: called with (pairs done, pairs in all or None).

    Raises:
        ValueError: if there is a target tokenizer for classes, or none for texts.
        UserError: if there is no pair, the folder cannot be written, or the store in it is damaged.
    """
    if (target_tokenizer is None) != bool(source.classes):
        raise ValueError(f"{source.name}: a target tokenizer is needed where targets are texts, and only there.")
    tokenise, _ = plain_tokenise(tokenizer)
    target = None if target_tokenizer is None else plain_tokenise(target_tokenizer)[0]
    ways = [f"{way.blank} {way.tokenizer}" if way else "classes" for way in (tokenise, target)]
    key = fingerprint(f"pairs {FORMAT}", source.fingerprint, *ways)
    columns = [*[tokenise] * source.n_sources, target]
    folder = cached(cache, key, lambda beside: _make(beside, key, source, columns, progress))
    return PairStore(folder, dev_fraction=source.dev_fraction)


def _make(
    folder: Path, key: str, source: PairSource, columns: list[Tokenise | None], progress: Progress | None
) -> None:
    backends = [None if column is None else column.open() for column in columns]
    with ColumnWriter(folder, _names(len(columns))) as writer:
        for chunk in _chunks(islice(source.read(), writer.count, None)):
            entries = np.zeros(len(chunk), _entry(len(columns)))
            entries["split"] = [pair_hash(pair) for pair in chunk]
            entries["part"] = [PARTS.index(pair.part) for pair in chunk]
            texts = zip(*[(*pair.sources, pair.target) for pair in chunk], strict=True)
            writer.write(entries, [_ids(*column) for column in zip(texts, columns, backends, strict=True)])
            if progress:
                progress(writer.count + source.skipped.total(), source.total)
    if not writer.count:
        reasons = ", ".join(f"{count:,} {why}" for why, count in source.skipped.items())
        raise UserError(f"no pairs ({reasons or 'the files are empty'})", key=source.name)
    meta = {"fingerprint": key, "name": source.name, "pairs": writer.count, "skipped": dict(source.skipped)}
    meta |= {"classes": list(source.classes), "synthetic": source.synthetic}
    dtypes = [(CLASS if column is None else column.dtype).str for column in columns]
    write_json(folder / META, {**meta, "dtypes": dtypes})


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    size = 0
    for pair in pairs:
        chunk.append(pair)
        size += sum(map(len, pair.sources))
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _ids(
    column: tuple[Any, ...], tokenise: Tokenise | None, backend: Tokenizer | None
) -> tuple[np.ndarray, np.ndarray]:
    if tokenise is None or backend is None:
        return np.array(column, CLASS), np.ones(len(column), np.int64)
    rows = tokenise(backend, list(column))
    return rows.ids, rows.lengths


def _entry(columns: int) -> np.dtype:
    return entry(columns, ("part", "u1"))


def _names(columns: int) -> list[str]:
    return [f"column-{i}.bin" for i in range(columns)]
