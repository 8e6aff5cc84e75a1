"""Token stores: a corpus tokenised once, in documents or in sentences, as token ids in a file.

    store = prepare(source, tokenizer, cache=Path(".cache/stores"))    makes the files, or finds them
    train = store.select("train", min_tokens=64)                       numbers of the usable documents
    ids = store[train.indices[0]]                                      token ids of one of them

Whether a unit is held out depends only on its document: on the part that the source assigns to it, else on a hash.
The index keeps both, so the documents of a corpus and their sentences are divided in the same way.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data.errors import UserError
from data.files import atomic_write, write_json
from data.mapped import META, PARTS, ColumnWriter, MappedStore, cached, entry
from data.selection import Selection, repeated, varied
from data.sentences import Sentences, splitter, splitter_kind
from data.sources.base import (
    PART_NAMES,
    Document,
    Part,
    Source,
    fingerprint,
    normalise,
    order_hash,
    part_of,
    split_hash,
    threshold,
)
from data.tokenising import (
    CHUNK_CHARACTERS,
    PARAGRAPHS,
    SENTENCE,
    Chunk,
    Rate,
    Tokenise,
    plain_tokenise,
    tokenised,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SpeedProgress = Callable[[int, int | None, str], None]  # called with (documents done, in all or None, speed)
FORMAT = "2"  # version of the files below and of the normalisation; part of every fingerprint
SENTENCE_FORMAT = "1"  # version of the fields that only stores of sentences have
HELD_OUT_DOCUMENTS = 2000  # whose text is kept for evaluation
HELD_OUT_CHARACTERS = 1 << 26  # of their texts together; longer texts are cut to their beginnings
_FIELDS = (("order", "<u8"), ("part", "u1"))
ENTRY, SENTENCE_ENTRY = entry(1, *_FIELDS), entry(1, *_FIELDS, *SENTENCE.descr)


class TokenStore(MappedStore):
    """The token ids of n units (documents or sentences), read from disk on access.

    Args:
        folder: made by ``prepare``.
        fraction, dev_fraction: attributes of the source; neither is stored in the files.
        sentences: rules by which ``select`` chooses sentences; None: the units are documents.

    Attributes:
        fingerprint: hexadecimal digest of text, tokenizer, normalisation and unit together.
        vocab_size: number of ids of the tokenizer.
        lengths: content tokens of each unit, of shape (n,), int64.

    Raises:
        UserError: if files are missing, or their lengths do not match the index.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fraction: float = 1.0,
        dev_fraction: float = 0.05,
        sentences: Sentences | None = None,
    ) -> None:
        self.fraction = fraction
        self.sentences = sentences
        super().__init__(folder, dev_fraction=dev_fraction, fraction=fraction, sentences=sentences)
        if not (folder / "held_out.jsonl").exists():
            raise UserError("not a readable token store (no held_out.jsonl): delete it", key=str(folder))
        self.vocab_size: int = self._meta["vocab_size"]
        self.lengths = self._lengths[:, 0]

    def _layout(self, meta: Mapping[str, Any]) -> tuple[int, np.dtype, Mapping[str, np.dtype]]:
        entries = ENTRY if self.sentences is None else SENTENCE_ENTRY
        return meta.get("units", meta["documents"]), entries, {"ids.bin": np.dtype(meta["dtype"])}

    def __getitem__(self, i: int) -> np.ndarray:
        """Returns the content ids of unit ``i``, of shape (lengths[i],), read-only."""
        return self.cells(i)[0]

    @property
    def documents(self) -> np.ndarray:
        """Number of each unit's document, of shape (n,), ascending: the sentences of a document are adjacent."""
        return np.arange(len(self)) if self.sentences is None else self._index["document"]

    def select(self, part: Part, *, min_tokens: int = 1, different_tokens: bool = False) -> Selection:
        """Selects the usable units of a part; in the training part, only those in the source's ``fraction``.

        Smaller fractions are subsets of larger ones. Of a repeated sentence, the copy in the document of lowest
        hash is kept, so that every fraction with a copy has this one.

        Args:
            part: "train" or "dev".
            min_tokens: least number of tokens of a unit.
            different_tokens: whether a unit must have at least two different tokens.

        Raises:
            UserError: if no unit is usable.
        """
        inside = self.in_part(part)
        if part == "train":
            inside &= self._index["order"] < threshold(self.fraction)
        usable = inside.copy()
        left_out: dict[str, int] = {}

        def leave_out(why: str, which: np.ndarray) -> None:
            which = which & usable
            if count := int(which.sum()):
                left_out[why] = left_out.get(why, 0) + count
                usable[which] = False

        rules = self.sentences
        leave_out("too short", self.lengths < min_tokens)
        if rules is not None:
            leave_out("too short", self._index["words"] < rules.min_words)
            leave_out("too long", self._index["words"] > rules.max_words)
        if different_tokens:
            leave_out("of one token", ~varied(self._columns[0], self.lengths))
        if rules is not None and rules.unique:
            besides = self.in_part("train") if part == "dev" else None  # no dev sentence is also in training
            leave_out("repeated", repeated(self._index["text"], self._index["order"], usable, besides))
        indices = np.flatnonzero(usable)
        if not len(indices):
            raise self._none_usable(part, inside, min_tokens, left_out)
        return Selection(indices, left_out)

    def held_out_texts(self) -> list[str]:
        """Returns the normalised texts of up to 2,000 different dev documents, in random order.

        If they have more than 64 million characters together, the longest are cut to their beginnings.
        """
        texts = []
        with (self.folder / "held_out.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                document = json.loads(line)
                if part_of(document["part"], document["split"], self.dev_fraction) == "dev":
                    texts.append(document["text"])
        return texts

    def _none_usable(
        self, part: Part, inside: np.ndarray, min_tokens: int, left_out: Mapping[str, int]
    ) -> UserError:
        kind = f"{PART_NAMES[part]} {'document' if self.sentences is None else 'sentence'}"
        if not inside.any():
            shares = f"dev_fraction={self.dev_fraction:g}, fraction={self.fraction:g}"
            return UserError(f"no {kind} ({len(self):,} in all, {shares})", key="corpus")
        reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
        longest = int(self.lengths[inside].max())
        return UserError(
            f"no {kind} can be used ({reasons}; the longest has {longest:,} tokens, {min_tokens:,} are needed)",
            key="corpus",
        )


def prepare(
    source: Source,
    tokenizer: PreTrainedTokenizerFast,
    *,
    cache: Path,
    sentences: Sentences | None = None,
    workers: int | None = None,
    progress: SpeedProgress | None = None,
) -> TokenStore:
    """Returns the token store of ``source`` under ``tokenizer``; makes its files if ``cache`` lacks them.

    White space is normalised, units of a byte-level BPE get one leading blank, and no special token is added.
    Memory does not grow with the text. A second process that needs the same store waits for the first. If a
    process is killed, the next one continues from the last finished shard, and the files are the same to the byte.

    Documents are split into sentences before they are lower-cased, and no sentence crosses a blank line. One store
    serves all rules of ``Sentences`` except ``split``.

    Args:
        source: the corpus.
        tokenizer: a Hugging Face fast tokenizer; it is not changed.
        cache: folder of all stores.
        sentences: rules for sentences as units; None: the units are documents.
        workers: processes that split and tokenise; 0: this process; None: one per core (at most 16), or 0 if the
            corpus is small.
        progress: called with (documents done, documents in all or None, speed and time left as text).

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

    def make(unfinished: Path) -> None:
        split = None
        if sentences is not None and sentences.split:
            texts = (normalise(document.text) for document in source.documents())
            split = splitter(lambda: texts)
        _make(unfinished, key, source, replace(tokenise, split=split), vocab_size, workers, progress)

    folder = cached(cache, key, make)
    return TokenStore(folder, fraction=source.fraction, dev_fraction=source.dev_fraction, sentences=sentences)


def _make(
    folder: Path,
    key: str,
    source: Source,
    tokenise: Tokenise,
    vocab_size: int,
    workers: int | None,
    progress: SpeedProgress | None,
) -> None:
    """Fills ``folder`` with the files of a store, or completes those that a killed process has left."""
    with ColumnWriter(folder, ["ids.bin"]) as writer:
        done = writer.state or {"documents": 0, "empty": 0, "held_out": {}}
        documents, empty, held_out = done["documents"], done["empty"], _HeldOut(**done["held_out"])
        rate = Rate(documents + empty, writer.ends[0])
        unread = islice(source.documents(), documents + empty, None)
        for chunk, rows in tokenised(_chunks(unread, tokenise.split is not None), tokenise, workers):
            entries = np.zeros(len(rows.lengths), ENTRY if rows.sentences is None else SENTENCE_ENTRY)
            owners = np.arange(len(entries)) if rows.sentences is None else rows.sentences["document"]
            for column, name in enumerate(("split", "order", "part")):
                entries[name] = np.array([hashes[column] for hashes in chunk.entries], ENTRY[name])[owners]
            if rows.sentences is not None:
                for name in SENTENCE.names or ():
                    entries[name] = rows.sentences[name]
                entries["document"] += documents
            for hashes, text in zip(chunk.entries, chunk.texts, strict=True):
                text = text.replace(PARAGRAPHS, " ")
                held_out.add(*hashes, text.lower() if source.lowercase else text)
            documents, empty = documents + len(chunk.texts), empty + chunk.empty
            state = {"documents": documents, "empty": empty, "held_out": held_out.state()}
            writer.write(entries, [(rows.ids, rows.lengths)], state)
            if progress:
                read = documents + empty
                share = read / source.total if source.total else source.share_read
                progress(read, source.total, rate(read, writer.ends[0], share))
    [tokens] = writer.ends
    if not tokens:
        raise UserError(f"{source.name} has no text (empty documents: {empty:,})", key="corpus")
    held_out.write(folder / "held_out.jsonl")
    meta = {"fingerprint": key, "documents": documents, "units": writer.count, "tokens": tokens}
    write_json(folder / META, {**meta, "vocab_size": vocab_size, "dtype": tokenise.dtype.str})


def _chunks(documents: Iterable[Document], paragraphs: bool) -> Iterator[Chunk]:
    """Normalises ``documents`` and groups them into chunks; ``paragraphs``: keeps their paragraphs apart."""
    chunk, size = Chunk(), 0
    for document in documents:
        text = normalise(document.text)
        if not text:
            chunk.empty += 1
            continue
        hashes = (split_hash(document.group, text), order_hash(text), PARTS.index(document.part))
        chunk.entries.append(hashes)
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


class _HeldOut:
    """Keeps ``HELD_OUT_DOCUMENTS`` texts: the source's own dev documents first, then those of lowest split hash.

    The lowest hashes are held out first, whatever ``dev_fraction`` is. If the texts are too long together, all are
    cut to one length, which is halved until they fit.

    Args:
        longest, heap: as ``state`` returned them.
    """

    def __init__(self, longest: int | None = None, heap: Sequence[tuple[int, int, int, str]] = ()) -> None:
        self._longest = HELD_OUT_CHARACTERS if longest is None else longest
        self._heap = [(split, order, part, text) for split, order, part, text in heap]
        self._seen = {-order for _, order, _, _ in self._heap}

    def state(self) -> dict[str, Any]:
        """Returns the constructor's arguments for an equal object."""
        return {"longest": self._longest, "heap": self._heap}

    def add(self, split: int, order: int, part: int, text: str) -> None:
        # A heap drops its smallest item, so hashes are negated: the highest split hash goes first, and documents
        # that the source itself holds out (0) go last.
        item = (0 if part == PARTS.index("dev") else -split, -order, part, text[: self._longest])
        full = len(self._heap) == HELD_OUT_DOCUMENTS
        if part == PARTS.index("train") or order in self._seen or (full and item < self._heap[0]):
            return
        self._seen.add(order)
        if full:
            _, dropped, _, _ = heapq.heapreplace(self._heap, item)
            self._seen.remove(-dropped)
        else:
            heapq.heappush(self._heap, item)
        while sum(len(kept[3]) for kept in self._heap) > HELD_OUT_CHARACTERS:
            self._longest //= 2
            self._heap = [(*kept[:3], kept[3][: self._longest]) for kept in self._heap]

    def write(self, path: Path) -> None:
        with atomic_write(path) as file:
            for split, _, part, text in sorted(self._heap, key=lambda item: -item[1]):
                record = {"split": -split, "part": PARTS[part], "text": text}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
