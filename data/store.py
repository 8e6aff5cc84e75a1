"""A corpus tokenised once, in documents or in sentences: token ids in a memory-mapped file.

Beside them stands what decides each unit's part: the hashes of its document, so that documents and sentences
of the same corpus are held out alike.
"""

from __future__ import annotations

import heapq
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data.caching import META, cached, damaged
from data.errors import UserError
from data.files import read_json, write_json
from data.selection import Selection, repeated, varied
from data.sentences import Sentences, splitter, splitter_kind
from data.sources.base import (
    Part,
    Source,
    fingerprint,
    normalise,
    order_hash,
    part_of,
    split_hash,
    threshold,
)
from data.tokenising import CHUNK_CHARACTERS, PARAGRAPHS, SENTENCE, Chunk, Tokenise, plain_tokenise, tokenised

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FORMAT = "2"  # of the files below and of the normalisation; part of every fingerprint
SENTENCE_FORMAT = "1"  # the same of what stores of sentences have besides
HELD_OUT = 2000  # documents whose text is kept for evaluation
HELD_OUT_CHARACTERS = 1 << 26  # of all of them: books are cut, to the beginnings that an evaluation needs
PARTS: tuple[Part | None, ...] = (None, "train", "dev")  # codes of an entry's ``part``
ENTRY = np.dtype([("end", "<i8"), ("split", "<u8"), ("order", "<u8"), ("part", "u1")])
SENTENCE_ENTRY = np.dtype(ENTRY.descr + SENTENCE.descr)
Progress = Callable[[int, int | None], None]


class TokenStore:
    """The token ids of n units, documents or sentences, read from disk as they are asked for.

    Args:
        folder: what ``prepare`` wrote.
        fraction, dev_fraction: as the source has them; neither is part of the files.
        sentences: which sentences are selected; None: the units are documents.

    Attributes:
        fingerprint: name of text, tokenizer, normalisation and unit together.
        vocab_size: number of ids of the tokenizer.
        lengths: content tokens of each unit, of shape (n,), int64.

    Raises:
        UserError: if files are missing or not as long as they must be.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fraction: float = 1.0,
        dev_fraction: float = 0.05,
        sentences: Sentences | None = None,
    ) -> None:
        self.folder = folder
        self.fraction = fraction
        self.dev_fraction = dev_fraction
        self.sentences = sentences
        try:
            meta = read_json(folder / META)
            entry, dtype = ENTRY if sentences is None else SENTENCE_ENTRY, np.dtype(meta["dtype"])
            self._index = np.memmap(folder / "index.bin", dtype=entry, mode="r").view(np.ndarray)
            size = (folder / "ids.bin").stat().st_size
            whole = (
                len(self._index) == meta.get("units", meta["documents"])
                and int(self._index["end"][-1]) * dtype.itemsize == meta["tokens"] * dtype.itemsize == size
                and (folder / "held_out.jsonl").exists()
            )
        except (OSError, ValueError, LookupError) as error:
            raise damaged(folder) from error
        if not whole:
            raise damaged(folder)
        self.fingerprint: str = meta["fingerprint"]
        self.vocab_size: int = meta["vocab_size"]
        self.lengths = np.diff(self._index["end"], prepend=0)
        self._n_documents: int = meta["documents"]
        self._ids = np.memmap(folder / "ids.bin", dtype=dtype, mode="r").view(np.ndarray)

    def __reduce__(self) -> tuple[Callable[..., TokenStore], tuple[Any, ...]]:
        return _reopen, (self.folder, self.fraction, self.dev_fraction, self.sentences)  # a worker maps it itself

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, i: int) -> np.ndarray:
        """Content ids of unit ``i``, of shape (lengths[i],), read-only."""
        end = int(self._index["end"][i])
        return self._ids[end - int(self.lengths[i]) : end]

    @property
    def documents(self) -> np.ndarray:
        """Number of each unit's document, of shape (n,), ascending: a document's sentences stand side by side."""
        return np.arange(len(self)) if self.sentences is None else self._index["document"]

    def select(
        self,
        part: Part,
        *,
        fraction: float | None = None,
        min_tokens: int = 1,
        different_tokens: bool = False,
        shorter: Callable[[int], str] | None = None,
    ) -> Selection:
        """The units of ``part`` with ``min_tokens`` tokens at least, and sentences as ``sentences`` has them.

        ``fraction`` (the source's by default) thins the training part alone, by documents. Of a sentence that
        repeats, the one is taken that the smallest fraction has, so that smaller selections lie within larger
        ones, and dev is the same at every fraction.

        Args:
            part: "train" or "dev".
            fraction: share of the training documents.
            min_tokens: tokens that a unit needs.
            different_tokens: whether at least two of them must differ.
            shorter: the settings with which units of a number of tokens are usable, for the error.

        Raises:
            UserError: if none is left.
        """
        share = self.fraction if fraction is None else fraction
        inside = self._in_part(part)
        if part == "train":
            inside &= self._index["order"] < threshold(share)
        total, usable = int(inside.sum()), inside.copy()
        left_out: dict[str, int] = {}

        def leave_out(why: str, which: np.ndarray) -> None:
            which = which & usable
            if count := int(which.sum()):
                left_out[why] = left_out.get(why, 0) + count
            np.logical_and(usable, ~which, out=usable)

        rules = self.sentences
        leave_out("too short", self.lengths < min_tokens)
        if rules is not None:
            leave_out("too short", self._index["words"] < rules.min_words)
            leave_out("too long", self._index["words"] > rules.max_words)
        if different_tokens:
            leave_out("of one token", ~varied(self._ids, self.lengths))
        if rules is not None and rules.unique:
            besides = self._in_part("train") if part == "dev" else None
            leave_out("repeated", repeated(self._index["text"], self._index["order"], usable, besides))
        indices = np.flatnonzero(usable)
        if len(indices):
            return Selection(indices, total - len(indices), total, left_out)
        raise self._nothing(part, share, inside, min_tokens, left_out, shorter)

    def held_out_texts(self) -> list[str]:
        """Texts of up to 2,000 different dev documents, white space normalised, in an order of no meaning.

        Where these are more than 64 million characters, the longest are cut to their beginnings.
        """
        texts = []
        with (self.folder / "held_out.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                if part_of(entry["part"], entry["split"], self.dev_fraction) == "dev":
                    texts.append(entry["text"])
        return texts

    def _in_part(self, part: Part) -> np.ndarray:
        own, low = self._index["part"], self._index["split"] < threshold(self.dev_fraction)
        if part == "dev":
            return (own == PARTS.index("dev")) | ((own == 0) & low)
        return (own == PARTS.index("train")) | ((own == 0) & ~low)

    def _nothing(
        self,
        part: Part,
        share: float,
        inside: np.ndarray,
        min_tokens: int,
        left_out: Mapping[str, int],
        shorter: Callable[[int], str] | None,
    ) -> UserError:
        total, unit = int(inside.sum()), "document" if self.sentences is None else "sentence"
        if not total:
            at = f"corpus.fraction={share}" if part == "train" else f"corpus.dev_fraction={self.dev_fraction}"
            return UserError(
                f"The {part} part is empty: {at} leaves none of {self._n_documents:,} documents (those of equal "
                "text or group go to the same part). Raise it"
                + (" or name a corpus.dev_path." if part == "dev" else ".")
            )
        longest = int(self.lengths[inside].max())
        if longest < min_tokens:
            settings = shorter(longest) if shorter else ""
            hint = f"add {settings}, or take a" if settings else "take a"
            return UserError(
                f"None of the {total:,} {part} {unit}s has the {min_tokens:,} tokens needed (longest: "
                f"{longest:,}): {hint} corpus of longer {unit}s."
            )
        reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
        hint = "take another corpus"
        if rules := self.sentences:
            hint = (
                f"widen sentences.min_words={rules.min_words} and sentences.max_words={rules.max_words}, or {hint}"
            )
        return UserError(f"None of the {total:,} {part} {unit}s can be used ({reasons}): {hint}.")


def prepare(
    source: Source,
    tokenizer: PreTrainedTokenizerFast,
    *,
    cache: Path,
    sentences: Sentences | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> TokenStore:
    """Opens the token store of ``source`` under ``tokenizer``, after making it where ``cache`` has none.

    Texts are normalised, a byte-level BPE gets one leading blank a unit, and no special token is added. Memory
    does not grow with the text. A second process that asks for the same store waits for the first.

    A document is split into sentences in the case that it has, and no sentence reaches over a blank line. One
    store serves all rules of selection (``Sentences`` but for ``split``).

    Args:
        source: the corpus.
        tokenizer: a Hugging Face fast tokenizer; it stays as it is.
        cache: folder of all stores.
        sentences: makes sentences the units, and says which are selected; None: documents are.
        workers: processes that split and tokenise; 0: this one alone; None: as many as there are cores where
            the corpus is large enough for their start to pay.
        progress: called with (documents done, documents in all or None).

    Raises:
        UserError: if the corpus is empty, the folder cannot be written, or the store in it is damaged.
    """
    tokenise, vocab_size = plain_tokenise(tokenizer)
    tokenise = replace(tokenise, lowercase=source.lowercase, sentences=sentences is not None)
    unit = []
    if sentences is not None:
        unit = [f"sentences {SENTENCE_FORMAT} {splitter_kind() if sentences.split else 'whole'}"]
    rules = f"{tokenise.blank} {source.lowercase}"
    key = fingerprint(FORMAT, source.fingerprint, tokenise.tokenizer, rules, *unit)

    def make(beside: Path) -> None:
        split = None
        if sentences is not None and sentences.split:
            texts = (normalise(document.text) for document in source.read())
            split = splitter(lambda: texts)
        _make(beside, key, source, replace(tokenise, split=split), vocab_size, workers, progress)

    folder = cached(cache, key, make)
    return _reopen(folder, source.fraction, source.dev_fraction, sentences)


class _HeldOut:
    """Keeps the ``HELD_OUT`` texts that any ``dev_fraction`` holds out first: those of the lowest split hashes.

    Where they are too long together, all are cut to one length, which halves until they fit.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str]] = []
        self._seen: set[int] = set()
        self._longest = self._left = HELD_OUT_CHARACTERS

    def add(self, split: int, order: int, part: int, text: str) -> None:
        item = (0 if part == PARTS.index("dev") else -split, -order, part, text[: self._longest])
        if part == PARTS.index("train") or order in self._seen or (self._full and item < self._heap[0]):
            return
        self._seen.add(order)
        self._left -= len(item[-1])
        if self._full:
            _, order, _, text = heapq.heappushpop(self._heap, item)
            self._seen.remove(-order)
            self._left += len(text)
        else:
            heapq.heappush(self._heap, item)
        while self._left < 0:
            self._longest //= 2
            self._heap = [(*item[:3], item[3][: self._longest]) for item in self._heap]
            self._left = HELD_OUT_CHARACTERS - sum(len(text) for *_, text in self._heap)

    @property
    def _full(self) -> bool:
        return len(self._heap) == HELD_OUT

    def write(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for split, _, part, text in sorted(self._heap, key=lambda item: -item[1]):
                entry = {"split": -split, "part": PARTS[part], "text": text}
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _make(
    folder: Path,
    key: str,
    source: Source,
    tokenise: Tokenise,
    vocab_size: int,
    workers: int | None,
    progress: Progress | None,
) -> None:
    documents = units = tokens = empty = 0
    held_out = _HeldOut()
    with (folder / "ids.bin").open("wb") as ids, (folder / "index.bin").open("wb") as index:
        for chunk, rows in tokenised(_chunks(source, tokenise.split is not None), tokenise, workers):
            entries = np.zeros(len(rows.lengths), ENTRY if rows.sentences is None else SENTENCE_ENTRY)
            entries["end"] = tokens + np.cumsum(rows.lengths)
            owners = np.arange(len(entries)) if rows.sentences is None else rows.sentences["document"]
            for column, name in enumerate(("split", "order", "part")):
                entries[name] = np.array([entry[column] for entry in chunk.entries], ENTRY[name])[owners]
            if rows.sentences is not None:
                for name in SENTENCE.names or ():
                    entries[name] = rows.sentences[name]
                entries["document"] += documents
            ids.write(rows.ids.tobytes())
            index.write(entries.tobytes())
            for entry, text in zip(chunk.entries, chunk.texts, strict=True):
                text = text.replace(PARAGRAPHS, " ")
                held_out.add(*entry, text.lower() if source.lowercase else text)
            documents, empty = documents + len(chunk.texts), empty + chunk.empty
            units, tokens = units + len(entries), tokens + len(rows.ids)
            if progress:
                progress(documents + empty, source.total)
        for file in (ids, index):
            file.flush()
            os.fsync(file.fileno())
    if not tokens:
        raise UserError(f"Corpus {source.name} has no text: {empty:,} documents, all of them empty.")
    held_out.write(folder / "held_out.jsonl")
    meta = {"fingerprint": key, "documents": documents, "units": units, "tokens": tokens}
    write_json(folder / META, {**meta, "vocab_size": vocab_size, "dtype": tokenise.dtype.str})


def _chunks(source: Source, paragraphs: bool) -> Iterator[Chunk]:
    chunk, size = Chunk(), 0
    for document in source.read():
        text = normalise(document.text)
        if not text:
            chunk.empty += 1
            continue
        entry = (split_hash(document.group, text), order_hash(text), PARTS.index(document.part))
        chunk.entries.append(entry)
        if paragraphs:
            parts = map(normalise, re.split(r"\n\s*\n", document.text))
            chunk.texts.append(PARAGRAPHS.join(filter(None, parts)))
        else:
            chunk.texts.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = Chunk(), 0
    yield chunk


def _reopen(folder: Path, fraction: float, dev_fraction: float, sentences: Sentences | None) -> TokenStore:
    return TokenStore(folder, fraction=fraction, dev_fraction=dev_fraction, sentences=sentences)
