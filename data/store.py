"""A corpus tokenised once: token ids in a memory-mapped file, with what decides each document's part."""

from __future__ import annotations

import heapq
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock

from data.errors import UserError, reason
from data.files import read_json, write_json
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
from data.tokenising import CHUNK_CHARACTERS, Chunk, Tokenise, tokenised
from data.tokenizer import is_byte_level, plain_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FORMAT = "2"  # of the files below and of the normalisation; part of every fingerprint
HELD_OUT = 2000  # documents whose text is kept for judgement
HELD_OUT_CHARACTERS = 1 << 26  # of all of them: books are cut, to the beginnings that a judgement needs
PARTS: tuple[Part | None, ...] = (None, "train", "dev")  # codes of an entry's ``part``
ENTRY = np.dtype([("end", "<i8"), ("split", "<u8"), ("order", "<u8"), ("part", "u1")])
Progress = Callable[[int, int | None], None]


class Selection(NamedTuple):
    """Usable documents of one part.

    Attributes:
        indices: their numbers in the store, ascending, of shape (n,), int64.
        skipped: documents of the part that are too short.
        total: documents of the part, the skipped ones included.
    """

    indices: np.ndarray
    skipped: int
    total: int


class TokenStore:
    """The token ids of n documents, read from disk as they are asked for.

    Args:
        folder: what ``prepare`` wrote.
        fraction, dev_fraction: as the source has them; neither is part of the files.

    Attributes:
        fingerprint: name of text, tokenizer and normalisation together.
        vocab_size: number of ids of the tokenizer.
        lengths: content tokens of each document, of shape (n,), int64.

    Raises:
        UserError: if files are missing or not as long as they must be.
    """

    def __init__(self, folder: Path, *, fraction: float = 1.0, dev_fraction: float = 0.05) -> None:
        self.folder = folder
        self.fraction = fraction
        self.dev_fraction = dev_fraction
        try:
            meta = read_json(folder / "meta.json")
            self._index = np.fromfile(folder / "index.bin", dtype=ENTRY)
            size = (folder / "ids.bin").stat().st_size
            dtype = np.dtype(meta["dtype"])
            whole = (
                len(self._index) == meta["documents"]
                and int(self._index["end"][-1]) * dtype.itemsize == meta["tokens"] * dtype.itemsize == size
                and (folder / "held_out.jsonl").exists()
            )
        except (OSError, ValueError, LookupError) as error:
            raise _damaged(folder) from error
        if not whole:
            raise _damaged(folder)
        self.fingerprint: str = meta["fingerprint"]
        self.vocab_size: int = meta["vocab_size"]
        self.lengths = np.diff(self._index["end"], prepend=0)
        self._ids = np.memmap(folder / "ids.bin", dtype=dtype, mode="r").view(np.ndarray)

    def __reduce__(self) -> tuple[Callable[..., TokenStore], tuple[Any, ...]]:
        return _reopen, (self.folder, self.fraction, self.dev_fraction)  # a worker maps the file itself

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, i: int) -> np.ndarray:
        """Content ids of document ``i``, of shape (lengths[i],), read-only."""
        end = int(self._index["end"][i])
        return self._ids[end - int(self.lengths[i]) : end]

    def select(self, part: Part, *, fraction: float | None = None, min_tokens: int = 1) -> Selection:
        """The documents of ``part`` that have at least ``min_tokens`` tokens.

        ``fraction`` (the source's by default) thins the training part alone.

        Raises:
            UserError: if none is left.
        """
        share = self.fraction if fraction is None else fraction
        inside = self._in_part(part)
        if part == "train":
            inside &= self._index["order"] < threshold(share)
        total = int(inside.sum())
        indices = np.flatnonzero(inside & (self.lengths >= min_tokens))
        if len(indices):
            return Selection(indices, total - len(indices), total)
        if total:
            longest = int(self.lengths[inside].max())
            raise UserError(
                f"None of the {total:,} {part} documents has the {min_tokens:,} tokens needed (longest: "
                f"{longest:,}): lower objective.max_length or objective.min_tokens, take a smaller budget, "
                "or a corpus of longer documents."
            )
        setting = f"corpus.fraction={share}" if part == "train" else f"corpus.dev_fraction={self.dev_fraction}"
        raise UserError(
            f"The {part} part is empty: {setting} leaves none of {len(self):,} documents. Raise it"
            + (" or name a corpus.dev_path." if part == "dev" else ".")
        )

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


def prepare(
    source: Source,
    tokenizer: PreTrainedTokenizerFast,
    *,
    cache: Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> TokenStore:
    """Opens the token store of ``source`` under ``tokenizer``, after making it where ``cache`` has none.

    Texts are normalised, a byte-level BPE gets one leading blank, and no special token is added. Memory does
    not grow with the text. A second process that asks for the same store waits for the first.

    Args:
        source: the corpus.
        tokenizer: a Hugging Face fast tokenizer; it stays as it is.
        cache: folder of all stores.
        workers: processes that tokenise; 0: this one alone; None: as many as there are cores where the corpus
            is large enough for their start to pay.
        progress: called with (documents done, documents in all or None).

    Raises:
        UserError: if the corpus is empty, the folder cannot be written, or the store in it is damaged.
    """
    backend = plain_backend(tokenizer)
    blank = is_byte_level(backend)
    key = fingerprint(FORMAT, source.fingerprint, backend.to_str(), f"{blank} {source.lowercase}")
    folder = cache / key
    vocab_size = max(backend.get_vocab().values()) + 1
    tokenise = Tokenise(backend.to_str(), blank, np.dtype("<u2" if vocab_size <= 1 << 16 else "<i4"))
    if not (folder / "meta.json").exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(cache / f"{key}.lock"):
                if not (folder / "meta.json").exists():
                    _make(folder, key, source, tokenise, vocab_size, workers, progress)
        except OSError as error:
            raise UserError(f"The token store could not be written to {cache}: {reason(error)}.") from error
    return TokenStore(folder, fraction=source.fraction, dev_fraction=source.dev_fraction)


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
    beside = folder.with_suffix(".part")
    for rest in (beside, folder):  # of a process that was killed: whoever holds the lock writes alone
        shutil.rmtree(rest, ignore_errors=True)
    beside.mkdir()
    try:
        documents = tokens = empty = 0
        held_out = _HeldOut()
        with (beside / "ids.bin").open("wb") as ids, (beside / "index.bin").open("wb") as index:
            for chunk, rows, lengths in tokenised(_chunks(source), tokenise, workers):
                entries = np.zeros(len(lengths), ENTRY)
                entries["end"] = tokens + np.cumsum(lengths)
                for column, name in enumerate(("split", "order", "part")):
                    entries[name] = [entry[column] for entry in chunk.entries]
                ids.write(rows.tobytes())
                index.write(entries.tobytes())
                for entry, text in zip(chunk.entries, chunk.texts, strict=True):
                    held_out.add(*entry, text)
                documents, tokens, empty = documents + len(entries), tokens + len(rows), empty + chunk.empty
                if progress:
                    progress(documents + empty, source.total)
            for file in (ids, index):
                file.flush()
                os.fsync(file.fileno())
        if not tokens:
            raise UserError(f"Corpus {source.name} has no text: {empty:,} documents, all of them empty.")
        held_out.write(beside / "held_out.jsonl")
        meta = {"fingerprint": key, "documents": documents, "tokens": tokens}
        write_json(beside / "meta.json", {**meta, "vocab_size": vocab_size, "dtype": tokenise.dtype.str})
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _chunks(source: Source) -> Iterator[Chunk]:
    chunk, size = Chunk(), 0
    for document in source.read():
        text = normalise(document.text)
        if not text:
            chunk.empty += 1
            continue
        entry = (split_hash(document.group, text), order_hash(text), PARTS.index(document.part))
        chunk.entries.append(entry)
        chunk.texts.append(text.lower() if source.lowercase else text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = Chunk(), 0
    yield chunk


def _reopen(folder: Path, fraction: float, dev_fraction: float) -> TokenStore:
    return TokenStore(folder, fraction=fraction, dev_fraction=dev_fraction)


def _damaged(folder: Path) -> UserError:
    return UserError(f"The token store in {folder} is damaged: delete the folder, it will be made anew.")
