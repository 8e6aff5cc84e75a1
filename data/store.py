"""Token tables: text that is tokenised once, as token ids on disk.

    table = prepare(source, tokenizer, cache=Path(".cache/stores"))    builds the files, or opens them
    train = table.select("train", min_tokens=64)                       numbers of the usable units
    ids = table[train.indices[0]]                                      token ids of one of them

A unit is a document, a sentence of a document, or a pair of texts. Its part is the one that the source assigns to
its document, else a hash of the document decides; so the documents of a corpus and their sentences are divided in
the same way.

A file holds the token ids of each column; an index, which is memory-mapped, describes the units. The ids
themselves are read unit by unit: the pages of a map of this size would stay in resident memory.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from data.errors import UserError, reading
from data.files import build_once, read_json, write_json
from data.sentences import Sentences, Splitter, installed_splitter, splitter
from data.sources import base
from data.sources.base import Example, Part, Source, normalise
from data.tokenizer import is_byte_level, plain_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FORMAT = "3"  # version of the files below and of the normalisation; part of every fingerprint
META, HELD_OUT, UNITS = "meta.json", "held_out.json", "units.bin"
SAVE_EVERY = 1_000_000  # units, after which a killed build can continue
CHUNK_CHARACTERS = 1 << 20  # of the texts that are tokenised together
HELD_OUT_DOCUMENTS = 2000  # whose text is kept for evaluation
HELD_OUT_CHARACTERS = 1 << 26  # of these texts together
MOST_COUNTED = 400_000  # units; the tokens of more change their distribution little
PART_CODES: tuple[Part | None, ...] = (None, "train", "dev")  # codes of a unit's ``part``
PARAGRAPHS = "\n"  # separates the paragraphs of a text that is to be split into sentences
UNIT = np.dtype(
    [
        ("part_hash", "<u8"),  # decides the part
        ("fraction_hash", "<u8"),  # decides the fractions, and which copy of a text stays
        ("part", "u1"),
        ("document", "<u4"),
        ("label", "<i2"),  # -1: none
        ("repeats", "<u2"),
        ("text", "<u8"),  # hash of the first text
        ("words", "<u4"),  # of the first text, between blanks
        ("two_tokens", "?"),  # whether the last text has two different tokens
        ("lengths", "<u4", (2,)),  # tokens of each text
    ]
)
CountProgress = Callable[[int], object]  # called with the number of examples done


class Pair(NamedTuple):
    """Content token ids of two texts, of shapes (n,) and (m,), and the number of their class (-1: none)."""

    first: np.ndarray
    second: np.ndarray
    label: int


class Selection(NamedTuple):
    """Usable units of one part.

    Attributes:
        indices: numbers of the units in the table, ascending, of shape (n,), int64. A unit that occurs several
            times in an epoch is repeated.
        left_out: number of other units of the part by the first reason that holds: "too short", "too long",
            "of one token", "repeated", "without neighbours", "without continuation",
            "without positive or negative".
    """

    indices: np.ndarray
    left_out: Mapping[str, int]

    def narrow(self, usable: np.ndarray, why: str, needs: str) -> Selection:
        """Leaves out further units.

        Args:
            usable: mask of the table's units that stay, of shape (n,), bool.
            why: the reason, for ``left_out``.
            needs: what a unit must have, for the error.

        Raises:
            UserError: if no unit stays.
        """
        kept = usable[self.indices]
        if not kept.any():
            raise UserError(f"none of {len(kept):,} usable texts has {needs}", key="corpus")
        count = len(np.unique(self.indices[~kept]))
        return Selection(self.indices[kept], +Counter({**self.left_out, why: count}))


@dataclass(eq=False)
class TokenTable:
    """The token ids of n units in c columns, read from disk on access.

    Args:
        folder: built by ``prepare``.
        fraction, dev_fraction: attributes of the source, which the files do not depend on.
        sentences: rules by which ``select`` chooses sentences; None: the units are documents or pairs.

    Attributes:
        fingerprint: hexadecimal digest of text, tokenizers, normalisation and unit together.
        lengths: content tokens of each unit, of shape (n, c), int64.
        documents: number of each unit's document, of shape (n,), ascending.
        labels: class of each unit, of shape (n,); -1 where there is none.
        texts: hash of each unit's first text, of shape (n,), uint64.

    Raises:
        UserError: if the files cannot be read.
    """

    folder: Path
    fraction: float = 1.0
    dev_fraction: float = 0.05
    sentences: Sentences | None = None

    def __post_init__(self) -> None:
        folder = self.folder
        with reading("token table", folder):
            meta = read_json(folder / META)
            self.fingerprint = folder.name
            self._vocab_sizes = meta["vocab_sizes"]
            columns = len(self._vocab_sizes)
            self._units = np.memmap(folder / UNITS, UNIT, "r", shape=(meta["units"],)).view(np.ndarray)
            self._files = [(folder / f"ids.{i}.bin").open("rb", buffering=0) for i in range(columns)]
        self.lengths = self._units["lengths"][:, :columns].astype(np.int64)
        self._ends = np.cumsum(self.lengths, axis=0)
        self.documents = self._units["document"]
        self.labels = self._units["label"]
        self.texts = self._units["text"]

    def __reduce__(self) -> tuple[Any, ...]:  # a worker opens the files itself
        return TokenTable, (self.folder, self.fraction, self.dev_fraction, self.sentences)

    def __len__(self) -> int:
        return len(self._units)

    def __getitem__(self, i: int) -> Any:
        """Returns the content ids of unit ``i``, of shape (lengths[i],), read-only; of two columns, a ``Pair``."""
        if len(self._files) == 1:
            return self._ids(i, 0)
        return Pair(self._ids(i, 0), self._ids(i, 1), int(self.labels[i]))

    def select(
        self,
        part: Part,
        *,
        min_tokens: int = 1,
        different_tokens: bool = False,
        rules: Sentences | None = None,
    ) -> Selection:
        """Selects the usable units of a part; in the training part, only those in the source's ``fraction``.

        Smaller fractions are subsets of larger ones. Of a repeated document or sentence one copy is selected, that
        in the document of lowest hash, so that every fraction with a copy has this one; and none is held out that
        is also in the training part. Pairs may repeat.

        Args:
            part: "train" or "dev".
            min_tokens: fewest tokens of a usable text.
            different_tokens: whether a unit must have two different tokens.
            rules: rules for sentences; None: those of the table.

        Raises:
            UserError: if no unit is usable.
        """
        rules, units = rules or self.sentences, self._units
        inside = self._in_part(part)
        if part == "train":
            inside &= units["fraction_hash"] < base.threshold(self.fraction)
        usable = inside.copy()
        left_out = Counter[str]()

        def leave_out(why: str, which: np.ndarray) -> None:
            left_out[why] += int((which & usable).sum())
            usable[which] = False

        leave_out("too short", self.lengths.min(axis=1) < min_tokens)
        if rules is not None:
            leave_out("too short", units["words"] < rules.min_words)
            leave_out("too long", units["words"] > rules.max_words)
        if different_tokens:
            leave_out("of one token", ~units["two_tokens"])
        if len(self._files) == 1 and (rules is None or rules.unique):
            reserved = self._in_part("train") if part == "dev" else usable
            leave_out("repeated", duplicates(units["text"], units["fraction_hash"], usable, reserved))
        indices = np.flatnonzero(usable)
        if not len(indices):
            reasons = "".join(f"{count:,} {why}, " for why, count in (+left_out).items())
            needs = f"the longest has {self.lengths[inside].max(initial=0):,} tokens, {min_tokens:,} are needed"
            needs += f" and {rules.min_words} to {rules.max_words} words" if rules else ""
            text = f"none of {inside.sum():,} texts of the {part} part can be used ({reasons}{needs})"
            raise UserError(text, key="corpus", hint="docs/which-objective has settings for short texts")
        if part == "train":
            indices = np.repeat(indices, units["repeats"][indices])
        return Selection(indices, +left_out)

    def token_counts(self, indices: np.ndarray, *, column: int = 0, most: int | None = None) -> np.ndarray:
        """Counts each token id in some units; of more than ``MOST_COUNTED``, in that many, evenly spaced.

        Args:
            indices: numbers of the units, of shape (n,).
            column: the column that is counted.
            most: number of tokens at the beginning of a unit that are counted; None: all.

        Returns:
            Counts of shape (vocabulary size of the column,), int64.
        """
        if len(indices) > MOST_COUNTED:
            indices = indices[np.linspace(0, len(indices) - 1, MOST_COUNTED).astype(np.int64)]
        counts = np.zeros(self._vocab_sizes[column], np.int64)
        for i in indices.tolist():
            np.add.at(counts, self._ids(i, column)[:most], 1)
        return counts

    def held_out_texts(self) -> list[str]:
        """Returns the normalised texts of up to 2,000 different dev documents, in random order.

        If they have more than 64 million characters together, the longest are cut to their beginnings.
        """
        return [
            text
            for part_hash, _, part, text in sorted(read_json(self.folder / HELD_OUT), key=itemgetter(1))
            if base.choose_part(PART_CODES[part], part_hash, self.dev_fraction) == "dev"
        ]

    def _in_part(self, part: Part) -> np.ndarray:
        assigned, low = self._units["part"], self._units["part_hash"] < base.threshold(self.dev_fraction)
        return (assigned == PART_CODES.index(part)) | ((assigned == 0) & (low if part == "dev" else ~low))

    def _ids(self, i: int, column: int) -> np.ndarray:
        dtype, length = _id_dtype(self._vocab_sizes[column]), int(self.lengths[i, column])
        start = int(self._ends[i, column]) - length
        # pread, not read: after a fork, processes share the file's position.
        content = os.pread(self._files[column].fileno(), length * dtype.itemsize, start * dtype.itemsize)
        return np.frombuffer(content, dtype, length)


def duplicates(texts: np.ndarray, order: np.ndarray, usable: np.ndarray, reserved: np.ndarray) -> np.ndarray:
    """Returns a mask of the usable units that repeat the text of another unit, of shape (n,), bool.

    Of equal texts a reserved unit is kept if there is one, else that of lowest ``order``, then the first.

    Args:
        texts: hashes of the texts, of shape (n,).
        order: priorities of the units, of shape (n,).
        usable: mask of shape (n,), bool.
        reserved: mask of other units (the training part, for held-out ones) or ``usable``, of shape (n,), bool.
    """
    # Reserved units first, then by ``order``; of each text the first one stays.
    scope = np.flatnonzero(usable | reserved)
    scope = scope[np.lexsort((order[scope], usable[scope]))]
    _, first = np.unique(texts[scope], return_index=True)
    result = usable.copy()
    result[scope[first]] = False
    return result


def prepare(
    source: Source,
    tokenizer: PreTrainedTokenizerFast,
    *,
    second: PreTrainedTokenizerFast | None = None,
    cache: Path,
    sentences: Sentences | None = None,
    progress: CountProgress = lambda done: None,
) -> TokenTable:
    """Returns the token table of ``source``; builds its files if ``cache`` lacks them.

    White space is normalised, texts for a byte-level BPE get one leading blank, and no special token is added.
    Memory does not grow with the text. Another process that needs the same table waits for the first. After a
    kill, the next build continues after the last whole million of units; the files are the same to the byte.

    Documents are split into sentences before they are lower-cased, and no sentence crosses a blank line. One table
    serves all rules of ``Sentences`` except ``split``.

    Args:
        source: documents or pairs of texts.
        tokenizer: a Hugging Face fast tokenizer; it is not changed.
        second: tokenizer of the second texts; None: ``tokenizer``.
        cache: folder of all tables.
        sentences: rules for sentences as units; None: documents or pairs are the units.
        progress: called with the number of examples done.

    Raises:
        UserError: if the source has no text.
    """
    backends = [plain_backend(each) for each in (tokenizer, second or tokenizer)[: source.columns]]
    split = sentences is not None and sentences.split
    # Besides the text: lower case, sentences, and whether Punkt was trained on it.
    facts = (FORMAT, source.fingerprint, f"{source.lowercase} {split} {split and installed_splitter() is None}")
    key = base.fingerprint(*facts, *[backend.to_str() for backend in backends])
    build_once(cache / key, lambda folder: _build(folder, source, split, backends, progress))
    return TokenTable(cache / key, source.fraction, source.dev_fraction, sentences)


def _build(
    folder: Path,
    source: Source,
    split: bool,
    backends: Sequence[Tokenizer],
    progress: CountProgress,
) -> None:
    """Fills ``folder``, after the last whole part of a killed build if any."""
    sizes = [max(backend.get_vocab().values()) + 1 for backend in backends]
    names = [*(f"ids.{i}.bin" for i in range(len(sizes))), UNITS]
    state: dict[str, Any] = {
        "vocab_sizes": sizes,
        "documents": 0,
        "units": 0,
        "sizes": [0] * len(names),
    }
    held_out: list[list[Any]] = []
    lower = str.lower if source.lowercase else str
    divide = splitter(example.texts[0] for example in source.read()) if split else None
    with ExitStack() as stack:
        files = [stack.enter_context((folder / name).open("ab")) for name in names]
        if (folder / META).exists():
            state, held_out = read_json(folder / META), read_json(folder / HELD_OUT)
        for file, size in zip(files, state["sizes"], strict=True):
            file.truncate(size)

        def save() -> None:
            for file in files:
                file.flush()
            state["sizes"] = [file.tell() for file in files]
            write_json(folder / HELD_OUT, held_out)
            write_json(folder / META, state)

        examples = source.read(_normalise_paragraphs if split else None)
        for chunk in _chunks(islice(examples, state["documents"], None)):
            texts, units, documents = _units(chunk, divide, lower, state["documents"])
            for i, backend in enumerate(backends):
                blank = " " * is_byte_level(backend)
                column = [f"{blank}{row[i]}" for row in texts]
                ids = [each.ids for each in backend.encode_batch_fast(column, add_special_tokens=False)]
                units["lengths"][:, i] = list(map(len, ids))
                units["two_tokens"] = [len(set(row)) > 1 for row in ids]
                files[i].write(np.fromiter(chain.from_iterable(ids), _id_dtype(sizes[i])).tobytes())
            files[-1].write(units.tobytes())
            held_out = _keep_held_out([*held_out, *documents])
            state["documents"] += len(chunk)
            state["units"] += len(units)
            if state["units"] % SAVE_EVERY < len(units):  # a further million is whole
                save()
            progress(state["documents"])
        save()
    if not state["units"]:
        raise UserError(f"no text in {source.describe()['where']}", key="corpus")


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    chunk, size = list[Example](), 0
    for example in examples:
        chunk.append(example)
        size += sum(map(len, example.texts))
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _units(
    chunk: Sequence[Example], divide: Splitter | None, lower: Callable[[str], str], first: int
) -> tuple[list[list[str]], np.ndarray, list[list[Any]]]:
    """Divides the examples of a chunk into units.

    Args:
        chunk: examples with normalised texts.
        divide: splits a paragraph into sentences; None: each example is a unit.
        lower: lower-cases a text, or returns it as it is.
        first: number of the first example.

    Returns:
        The texts of each unit; the units, of dtype ``UNIT``, without lengths; and part hash, fraction hash,
        code of the part and text of each example's document.
    """
    rows, entries, documents = [], [], []
    for number, example in enumerate(chunk, first):
        text = example.texts[0].replace(PARAGRAPHS, " ")
        fields = [base.split_hash(example.group, text), base.text_hash(text), PART_CODES.index(example.part)]
        documents.append([*fields, lower(text)])
        units = [example.texts]
        if divide is not None:
            units = [(unit,) for paragraph in example.texts[0].split(PARAGRAPHS) for unit in divide(paragraph)]
        for texts in units:
            row = list(map(lower, texts))
            rows.append(row)
            words = row[0].count(" ") + 1
            entries.append(
                (*fields, number, example.label, example.repeats, base.text_hash(row[0]), words, False, (0, 0))
            )
    return rows, np.array(entries, UNIT), documents


def _keep_held_out(documents: Sequence[list[Any]]) -> list[list[Any]]:
    """Keeps different texts: those that the source itself holds out first, then those of lowest part hash.

    The lowest hashes are held out first, whatever ``dev_fraction`` is. If the texts are too long together, all are
    cut to one length, which is halved until they fit.
    """
    distinct = {document[1]: document for document in reversed(documents) if PART_CODES[document[2]] != "train"}
    kept = sorted(distinct.values(), key=lambda each: (PART_CODES[each[2]] != "dev", each[:2]))[
        :HELD_OUT_DOCUMENTS
    ]
    longest = HELD_OUT_CHARACTERS
    while sum(min(longest, len(text)) for *_, text in kept) > HELD_OUT_CHARACTERS:
        longest //= 2
    return [[*fields, text[:longest]] for *fields, text in kept]


def _normalise_paragraphs(text: str) -> str:
    return PARAGRAPHS.join(filter(None, map(normalise, re.split(r"\n\s*\n", text))))


def _id_dtype(vocab_size: int) -> np.dtype:
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<i4")
