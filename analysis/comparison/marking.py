"""Recovers from token ids what an objective did to a text: masked, deleted, inserted, moved or cut-out tokens.

Needed are the unit that the objective samples from and the rows that it makes of it. Each row is split at special
tokens, each part is located in the unit, and the differences are named. As phrases may repeat, parts are located
by the same rows of ``numbered`` text where there are such rows; else they are looked up (as a span, else by the
least number of changes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from data.batch import IGNORE, Tokens

Mark = Literal[
    "kept", "special", "hidden", "exchanged", "predicted", "deleted", "added", "replaced", "moved", "other"
]
TokenTexts = Callable[[Sequence[int]], list[str]]  # token ids to texts; a blank precedes each that begins a word
BEYOND = 12  # tokens shown behind the last span of a text
WORD_STARTS = ("Ġ", "▁")  # of byte-level and SentencePiece vocabularies
NUMBERED = 2**40  # above all token ids: the number of a text's first token
LEAST_SHARED = 0.3  # share of a row's tokens that stay, from which it counts as made from a text


class Piece(NamedTuple):
    """A token as shown; ``was`` is the token that it replaces."""

    text: str
    mark: Mark
    was: str = ""


class Part(NamedTuple):
    """Tokens of a row between special tokens.

    Attributes:
        pieces: its tokens, with deleted tokens at their former positions.
        original: index of the unit's text that it is made from; None if there is none.
        span: first token and one past the last, if it is a span of that text.
    """

    pieces: tuple[Piece, ...]
    original: int | None = None
    span: tuple[int, int] | None = None


class Row(NamedTuple):
    """Input of the encoder (or a decoder) in one role; ``same_as`` names an earlier role with equal tokens."""

    role: str
    parts: tuple[Part, ...]
    same_as: str = ""


class Block(NamedTuple):
    """All rows of one role.

    Attributes:
        tokens: of shape (B, T).
        texts: converts their ids to texts.
        special: ids of separators such as [CLS]; neither the mask token nor the unknown token.
        mask: id of the mask token, if there is one.
        numbered: the same rows, sampled with the same random numbers from ``numbered`` text; None if not known.
    """

    tokens: Tokens
    texts: TokenTexts
    special: Collection[int]
    mask: int | None = None
    numbered: Tokens | None = None


@dataclass(frozen=True)
class View:
    """One example of an objective.

    Attributes:
        originals: tokens of those texts of the unit from which rows are made, by index.
        rows: in the order of their roles.
        numbers: the example's class labels ("consistent": "0").
    """

    originals: Mapping[int, tuple[str, ...]]
    rows: tuple[Row, ...]
    numbers: Mapping[str, str]


def token_texts(tokenizer: Any) -> TokenTexts:
    """Returns a function that converts ids of a Hugging Face tokenizer, special tokens included, to texts."""
    # A few words may begin with such a sign in any vocabulary (text about tokenizers).
    vocabulary = tokenizer.get_vocab()
    signed = sum(str(name).startswith(WORD_STARTS) for name in vocabulary) > len(vocabulary) / 10

    def texts(ids: Sequence[int]) -> list[str]:
        names = tokenizer.convert_ids_to_tokens([int(i) for i in ids])
        return [_token_text(tokenizer, int(i), str(name), signed) for i, name in zip(ids, names, strict=True)]

    return texts


def _token_text(tokenizer: Any, number: int, name: str, signed: bool) -> str:
    """Returns a token's text; ``signed``: word starts carry a sign, else every token but "##..." starts a word."""
    if number in tokenizer.all_special_ids:
        return f" {name}"
    if name.startswith("##"):
        return name[2:]
    text = tokenizer.decode([number], clean_up_tokenization_spaces=False)
    return f" {text.strip()}" if not signed or name.startswith(WORD_STARTS) else text


def view(unit: Any, roles: Mapping[str, Block], numbers: Mapping[str, str]) -> View:
    """Compares the rows of an example with the unit that they were sampled from.

    Args:
        unit: arrays of token ids, in any nesting of tuples, lists and dataclasses.
        roles: the rows by role.
        numbers: the example's class labels.
    """
    originals = list(arrays(unit))
    ends: dict[int, int] = {}  # of what is shown of each original
    converters: dict[int, TokenTexts] = {}
    rows: list[Row] = []
    seen: dict[tuple[Any, ...], str] = {}
    for role, block in roles.items():
        for number, length in enumerate(block.tokens.lengths.tolist()):
            name = role if len(block.tokens) == 1 else f"{role} {number + 1}"
            ids, targets = _row(block.tokens, number, length)
            sources = _sources(block, number, originals)
            key = (id(block.texts), ids.tobytes(), targets.tobytes())
            parts = tuple(_parts(ids, targets, sources, originals, block))
            rows.append(Row(name, parts, seen.get(key, "")))
            seen.setdefault(key, name)
            for part in parts:
                # A text that is used as a whole is not shown a second time.
                if part.original is not None and part.span != (0, len(originals[part.original])):
                    converters.setdefault(part.original, block.texts)
                    end = len(originals[part.original]) if part.span is None else part.span[1] + BEYOND
                    ends[part.original] = max(end, ends.get(part.original, 0))
    shown = {}
    for number, end in ends.items():
        cut = (" …",) if end < len(originals[number]) else ()
        shown[number] = (*converters[number](originals[number][:end].tolist()), *cut)
    return View(shown, tuple(rows), numbers)


def arrays(unit: Any) -> Iterator[np.ndarray]:
    """Yields the arrays of token ids in ``unit``, in order."""
    if isinstance(unit, np.ndarray):
        if unit.ndim == 1 and len(unit) and np.issubdtype(unit.dtype, np.integer):
            yield unit.astype(np.int64)
    elif isinstance(unit, (tuple, list)):
        for part in unit:
            yield from arrays(part)
    elif is_dataclass(unit):
        for field in fields(unit):
            yield from arrays(getattr(unit, field.name))


def numbered(length: int, first: int = 0) -> np.ndarray:
    """Returns numbers in place of the ids of ``length`` tokens, the first one number ``first`` of its text."""
    return NUMBERED + np.arange(first, first + length)


def _row(tokens: Tokens, number: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids, and the original token at each position to be predicted, else ``IGNORE``, both of shape (T,).

    Labels that are the row's own next tokens, as a decoder has them, mask nothing.
    """
    ids = tokens.ids[number, :length].numpy()
    labels = None if tokens.labels is None else tokens.labels[number, :length].numpy()
    if labels is None or (labels[:-1] == ids[1:]).all():
        return ids, np.full(len(ids), IGNORE)
    return ids, labels


def _sources(block: Block, number: int, originals: Sequence[np.ndarray]) -> np.ndarray | None:
    """Returns where in the only text each token of a row stands, -1 for none, of shape (T,); None if not known."""
    lengths = block.tokens.lengths.tolist()
    if block.numbered is None or len(originals) != 1 or block.numbered.lengths.tolist() != lengths:
        return None
    before, places = (
        np.where(targets == IGNORE, ids, targets)
        for ids, targets in (_row(tokens, number, lengths[number]) for tokens in (block.tokens, block.numbered))
    )
    places = places - NUMBERED
    places[(places < 0) | (places >= len(originals[0]))] = -1
    # An objective that looks at the tokens may have sampled another example.
    known = places >= 0
    return places if (originals[0][places[known]] == before[known]).all() else None


def _parts(
    ids: np.ndarray,
    targets: np.ndarray,
    sources: np.ndarray | None,
    originals: Sequence[np.ndarray],
    block: Block,
) -> Iterator[Part]:
    bounds = np.isin(ids, list(block.special)) & (targets == IGNORE)
    start = 0
    for end in [*np.flatnonzero(bounds).tolist(), len(ids)]:
        if start < end:
            own = None if sources is None else sources[start:end]
            yield _part(ids[start:end], targets[start:end], own, originals, block)
        if end < len(ids):
            yield Part((Piece(block.texts([int(ids[end])])[0], "special"),))
        start = end + 1


def _part(
    ids: np.ndarray,
    targets: np.ndarray,
    sources: np.ndarray | None,
    originals: Sequence[np.ndarray],
    block: Block,
) -> Part:
    predicted = targets != IGNORE
    before = np.where(predicted, targets, ids)  # before masking
    now = block.texts(ids.tolist())
    was = block.texts(before.tolist()) if predicted.any() else now

    def pieces(mark: Mark) -> tuple[Piece, ...]:
        return tuple(
            Piece(now[i], _masking(ids[i], before[i], block.mask), was[i].strip())
            if predicted[i]
            else Piece(now[i], mark)
            for i in range(len(ids))
        )

    if sources is not None and (sources < 0).all():
        return Part(pieces("other"))
    if sources is not None and (sources >= 0).all():
        steps = np.diff(sources)
        if (steps == 1).all():
            return Part(pieces("kept"), 0, (int(sources[0]), int(sources[-1]) + 1))
        if (steps > 0).all() and not predicted.any():
            kept = {*sources.tolist()}
            texts = enumerate(block.texts(originals[0].tolist()))
            return Part(tuple(Piece(text, "kept" if i in kept else "deleted") for i, text in texts), 0)
    for number, text in sorted(enumerate(originals), key=lambda item: len(item[1]) != len(before)):
        if (start := _find(text, before)) is not None:
            return Part(pieces("kept"), number, (start, start + len(ids)))
    if not originals or predicted.any():
        return Part(pieces("other"))
    edits = [_edits(text, before) for text in originals]
    stays = [
        sum(i >= 0 and j >= 0 and text[i] == before[j] for i, j in found)
        for text, found in zip(originals, edits, strict=True)
    ]
    number = int(np.argmax(stays))
    if stays[number] < LEAST_SHARED * len(before):
        return Part(pieces("other"))
    return Part(tuple(_changes(originals[number].tolist(), before.tolist(), edits[number], block.texts)), number)


def _masking(token: int, was: int, mask: int | None) -> Mark:
    """Returns how a token to be predicted is shown to the encoder (Devlin et al. 2019)."""
    if token == was:
        return "predicted"
    return "hidden" if token == mask else "exchanged"


def _find(text: np.ndarray, span: np.ndarray) -> int | None:
    """Returns where ``span``, of shape (m,), begins in ``text``, of shape (n,); None if it does not occur."""
    if len(span) > len(text):
        return None
    windows = np.lib.stride_tricks.sliding_window_view(text, len(span))
    found = np.flatnonzero((windows == span).all(axis=1))
    return int(found[0]) if len(found) else None


def _edits(old: np.ndarray, new: np.ndarray) -> list[tuple[int, int]]:
    """Returns the fewest edits (Levenshtein) from ``old`` (n,) to ``new`` (m,), in order.

    Each is a position in either: (i, j) of a token that stays or is replaced, (i, -1) deleted, (-1, j) inserted.
    """
    columns = np.arange(len(new) + 1)
    cost = np.empty((len(old) + 1, len(new) + 1), dtype=np.int32)
    cost[0] = columns
    for i, token in enumerate(old):
        cost[i + 1] = cost[i] + 1
        cost[i + 1, 1:] = np.minimum(cost[i + 1, 1:], cost[i, :-1] + (new != token))
        cost[i + 1] = np.minimum.accumulate(cost[i + 1] - columns) + columns  # insertions
    edits = []
    i, j = len(old), len(new)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + (old[i - 1] != new[j - 1]):
            i, j = i - 1, j - 1
            edits.append((i, j))
        elif i and cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
            edits.append((i, -1))
        else:
            j -= 1
            edits.append((-1, j))
    return edits[::-1]


def _changes(old: list[int], new: list[int], edits: list[tuple[int, int]], texts: TokenTexts) -> Iterator[Piece]:
    """Yields the tokens of ``new``, and those of ``old`` that were deleted."""
    before, after = texts(old), texts(new)
    changes = [(i, j) for i, j in edits if i < 0 or j < 0 or old[i] != new[j]]
    moved = Counter(old[i] for i, _ in changes if i >= 0) & Counter(new[j] for _, j in changes if j >= 0)
    sources, targets = moved.copy(), moved
    for i, j in edits:
        if i >= 0 and j >= 0 and old[i] == new[j]:
            yield Piece(after[j], "kept")
            continue
        lost = i >= 0 and not _take(sources, old[i])
        if j >= 0 and _take(targets, new[j]):
            yield Piece(after[j], "moved")
        elif j >= 0 and lost:
            yield Piece(after[j], "replaced", before[i].strip())
            continue
        elif j >= 0:
            yield Piece(after[j], "added")
        if lost:
            yield Piece(before[i], "deleted")


def _take(counts: Counter[int], token: int) -> bool:
    """Takes one ``token`` from ``counts``; returns False if none is left."""
    if not counts[token]:
        return False
    counts[token] -= 1
    return True
