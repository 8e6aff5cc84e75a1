"""What an objective did to a text, read off the token ids: kept, hidden, deleted, put in, moved, or cut out.

Nothing is asked of the objective but the unit that it drew from and the rows that it made of it: each row is
parted at special tokens, each part is found again in the unit (as a stretch of it, else by the longest common
blocks of ``difflib``), and what differs is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import numpy as np

from data.batch import IGNORE, Tokens

Mark = Literal["kept", "special", "hidden", "exchanged", "asked", "deleted", "added", "replaced", "moved", "other"]
Spell = Callable[[Sequence[int]], list[str]]  # token ids to their texts, a blank before each that has one
BEYOND = 12  # tokens of a text that are shown behind the last stretch of it
SIGNS = ("Ġ", "▁")  # of a byte-level and a SentencePiece vocabulary, where a word begins
AKIN = 0.3  # share of a row's tokens in common blocks from which it counts as made of a text


class Piece(NamedTuple):
    """A token as shown; ``was`` is what stood there before."""

    text: str
    mark: Mark
    was: str = ""


class Part(NamedTuple):
    """A stretch of a row between special tokens.

    Attributes:
        pieces: its tokens, and those deleted where they stood.
        original: number of the text that it is made of; None: of none in the unit.
        span: first token and the one behind the last, where it is a stretch of that text.
    """

    pieces: tuple[Piece, ...]
    original: int | None = None
    span: tuple[int, int] | None = None


class Row(NamedTuple):
    """What the encoder (or a decoder) gets in one role; ``same_as`` names an earlier role of equal tokens."""

    role: str
    parts: tuple[Part, ...]
    same_as: str = ""


class Drawn(NamedTuple):
    """The rows of one role.

    Attributes:
        tokens: of shape (B, T).
        spell: how their ids are written.
        special: ids that begin, end or part rows; what hides a token or stands for an unknown one is none of them.
        mask: id of what hides a token, where there is such.
    """

    tokens: Tokens
    spell: Spell
    special: Collection[int]
    mask: int | None = None


@dataclass(frozen=True)
class View:
    """What was drawn from one unit.

    Attributes:
        originals: the tokens of those texts of the unit that rows are stretches or changes of, by number.
        rows: in the order of their roles.
        numbers: what goes with them ("consistent": "0").
    """

    originals: Mapping[int, tuple[str, ...]]
    rows: tuple[Row, ...]
    numbers: Mapping[str, str]


def speller(tokenizer: Any) -> Spell:
    """How a Hugging Face tokenizer's ids are written, special tokens included."""

    # Words may begin with such a sign of their own, where text is about tokenizers.
    vocabulary = tokenizer.get_vocab()
    signed = sum(str(name).startswith(SIGNS) for name in vocabulary) > len(vocabulary) / 10

    def spell(ids: Sequence[int]) -> list[str]:
        names = tokenizer.convert_ids_to_tokens([int(i) for i in ids])
        return [_written(tokenizer, int(i), str(name), signed) for i, name in zip(ids, names, strict=True)]

    return spell


def _written(tokenizer: Any, number: int, name: str, signed: bool) -> str:
    """A token's text; ``signed``: whether a sign says where a word begins, else all but "##..." do."""
    if number in tokenizer.all_special_ids:
        return f" {name}"
    if name.startswith("##"):
        return name[2:]
    text = tokenizer.decode([number], clean_up_tokenization_spaces=False)
    return f" {text.strip()}" if not signed or name.startswith(SIGNS) else text


def view(unit: Any, roles: Mapping[str, Drawn], numbers: Mapping[str, str]) -> View:
    """Reads what was drawn.

    Args:
        unit: what the objective drew from: arrays of token ids, in whatever tuples, lists or dataclasses.
        roles: the rows by role.
        numbers: what goes with the rows.
    """
    texts = list(arrays(unit))
    ends: dict[int, int] = {}  # of what is shown of each text
    spelt: dict[int, Spell] = {}
    rows: list[Row] = []
    seen: dict[tuple[Any, ...], str] = {}
    for role, (block, spell, special, mask) in roles.items():
        for number, length in enumerate(block.lengths.tolist()):
            name = role if len(block) == 1 else f"{role} {number + 1}"
            ids = block.ids[number, :length].numpy()
            labels = _hidden(ids, None if block.labels is None else block.labels[number, :length].numpy())
            key = (id(spell), ids.tobytes(), labels.tobytes())
            parts = tuple(_parts(ids, labels, texts, special, mask, spell))
            rows.append(Row(name, parts, seen.get(key, "")))
            seen.setdefault(key, name)
            for part in parts:
                # A text that is taken as it is needs no showing beside itself.
                if part.original is not None and not _whole(part, texts):
                    spelt.setdefault(part.original, spell)
                    end = len(texts[part.original]) if part.span is None else part.span[1] + BEYOND
                    ends[part.original] = max(end, ends.get(part.original, 0))
    originals = {}
    for number, end in ends.items():
        cut = (" …",) if end < len(texts[number]) else ()
        originals[number] = (*spelt[number](texts[number][:end].tolist()), *cut)
    return View(originals, tuple(rows), numbers)


def _whole(part: Part, texts: Sequence[np.ndarray]) -> bool:
    return part.original is not None and part.span == (0, len(texts[part.original]))


def arrays(unit: Any) -> Iterator[np.ndarray]:
    """Finds the rows of token ids in ``unit``, in their order."""
    if isinstance(unit, np.ndarray):
        if unit.ndim == 1 and len(unit) and np.issubdtype(unit.dtype, np.integer):
            yield unit.astype(np.int64)
    elif isinstance(unit, (tuple, list)):
        for part in unit:
            yield from arrays(part)
    elif is_dataclass(unit):
        for field in fields(unit):
            yield from arrays(getattr(unit, field.name))


def _hidden(ids: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """What stood at each position that is to be guessed, else ``IGNORE``, of shape (T,).

    Labels that are the next token of the row itself, as a decoder has them, hide nothing.
    """
    if labels is None or (labels[:-1] == ids[1:]).all():
        return np.full(len(ids), IGNORE)
    return labels


def _parts(
    ids: np.ndarray,
    labels: np.ndarray,
    texts: Sequence[np.ndarray],
    special: Collection[int],
    mask: int | None,
    spell: Spell,
) -> Iterator[Part]:
    bounds = np.isin(ids, list(special)) & (labels == IGNORE)
    start = 0
    for end in [*np.flatnonzero(bounds).tolist(), len(ids)]:
        if start < end:
            yield _part(ids[start:end], labels[start:end], texts, mask, spell)
        if end < len(ids):
            yield Part((Piece(spell([int(ids[end])])[0], "special"),))
        start = end + 1


def _part(
    ids: np.ndarray, labels: np.ndarray, texts: Sequence[np.ndarray], mask: int | None, spell: Spell
) -> Part:
    before = np.where(labels == IGNORE, ids, labels)  # as it was, before tokens were hidden
    written = spell(ids.tolist())
    guessed = labels != IGNORE
    fates = [_fate(i, old, mask) if asked else None for i, old, asked in zip(ids, before, guessed, strict=True)]

    def pieces(marks: Sequence[Mark]) -> tuple[Piece, ...]:
        was = spell(before.tolist()) if guessed.any() else written
        return tuple(
            Piece(text, fate, old.strip()) if fate else Piece(text, mark)
            for text, mark, old, fate in zip(written, marks, was, fates, strict=True)
        )

    for number, text in sorted(enumerate(texts), key=lambda item: len(item[1]) != len(before)):
        if (start := _find(text, before)) is not None:
            return Part(pieces(["kept"] * len(ids)), number, (start, start + len(ids)))
    if not texts or guessed.any():
        return Part(pieces(["other"] * len(ids)))
    matchers = [SequenceMatcher(None, text.tolist(), before.tolist(), autojunk=False) for text in texts]
    shared = [sum(block.size for block in matcher.get_matching_blocks()) for matcher in matchers]
    number = int(np.argmax(shared))
    if shared[number] < AKIN * len(before):
        return Part(pieces(["other"] * len(ids)))
    return Part(tuple(_changes(texts[number].tolist(), before.tolist(), matchers[number], spell)), number)


def _fate(token: int, was: int, mask: int | None) -> Mark:
    """Of a token that is to be guessed (Devlin et al. 2019): hidden, exchanged for another, or left as it is."""
    if token == was:
        return "asked"
    return "hidden" if token == mask else "exchanged"


def _find(text: np.ndarray, stretch: np.ndarray) -> int | None:
    """Where ``stretch`` (of shape (m,)) begins in ``text`` (of shape (n,)), if it is in it."""
    if len(stretch) > len(text):
        return None
    windows = np.lib.stride_tricks.sliding_window_view(text, len(stretch))
    found = np.flatnonzero((windows == stretch).all(axis=1))
    return int(found[0]) if len(found) else None


def _changes(old: list[int], new: list[int], matcher: SequenceMatcher[int], spell: Spell) -> Iterator[Piece]:
    """The tokens of ``new`` with what became of those of ``old``."""
    before, after = spell(old), spell(new)
    gone: Counter[int] = Counter()
    come: Counter[int] = Counter()
    for kind, i, end, j, stop in matcher.get_opcodes():
        if kind != "equal":
            gone.update(old[i:end])
            come.update(new[j:stop])
    left, arrived = gone & come, gone & come  # tokens that stand elsewhere now
    for kind, i, end, j, stop in matcher.get_opcodes():
        if kind == "equal":
            yield from (Piece(text, "kept") for text in after[j:stop])
            continue
        lost = [number for number in range(i, end) if not _taken(left, old[number])]
        for number in range(j, stop):
            if _taken(arrived, new[number]):
                yield Piece(after[number], "moved")
            elif lost and end - i == stop - j:  # one for one
                yield Piece(after[number], "replaced", before[lost.pop(0)].strip())
            else:
                yield Piece(after[number], "added")
        yield from (Piece(before[number], "deleted") for number in lost)


def _taken(stock: Counter[int], token: int) -> bool:
    """Whether one more of ``token`` was in ``stock``, from which it is taken."""
    if not stock[token]:
        return False
    stock[token] -= 1
    return True
