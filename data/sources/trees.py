"""Sentences and their constituency trees, as brackets in one line.

Vinyals et al. 2015, "Grammar as a Foreign Language": a tree is written depth-first, its closing brackets with
their labels (their figure 2), its part-of-speech tags as "XX" (their "POS tag normalization"), but for
punctuation, which stands for itself (their figure 1):

    Go .          (S (VP XX )VP . )S
    John has a dog .    (S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S

GenSen (Subramanian et al. 2018, section 4) takes this target, and gold trees five times beside machine parses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from data.errors import UserError, reading
from data.ranges import Below1, Count
from data.sources.base import Example, Part, Source, part_of, split_hash
from data.sources.nltk_corpus import corpus_reader
from data.sources.reading import as_list, digest, find_files, lines

VERSION = "3"  # of ``pruned``, ``words`` and ``linearised``: raise it where a tree would give another pair
KINDS = (".ptb", ".mrg", ".txt")
ROOTS = {"", "ROOT", "TOP", "S1"}
EMPTY_ELEMENT = "-NONE-"
PUNCTUATION = {".", ",", ":", "``", "''", "-LRB-", "-RRB-"}  # tags that stand for themselves
WORD = "XX"  # every other tag
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
ESCAPED |= {r"\/": "/", r"\*": "*"}
_ESCAPED = re.compile(r"-[LR][RCS]B-|\\[/*]")
_PIECE = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"^([^-=]+)[-=].*")  # NP-SBJ-1, NP=2; not -LRB-
Lines = Iterable[tuple[int, str]]


class Tree(NamedTuple):
    """A constituent with children, or a part-of-speech tag with its word ("" in a tree without words)."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str = ""


class Trees(Source):
    """Sentences (tokens, separated by blanks) and their trees.

    Trees are bracketed as in the Penn Treebank, "(S (NP (DT the) ...", over any number of lines. Escaped brackets
    in words ("-LRB-") are restored. Empty elements, constituents that are empty without them, and a root that only
    holds the tree are left out.

    Args:
        gold: a file, a folder (with all .mrg, .ptb and .txt files in it, or these with .gz), a glob, or a list of
            these.
        corpus: instead of ``gold``, a parsed corpus of NLTK ("treebank").
        machine: trees of a parser in addition to the gold ones, as ``gold``; none of them is held out, and those
            of held-out sentences are left out.
        gold_repeats: how many times a gold training tree occurs if there are ``machine`` ones.
        dev_path: held-out gold trees, as ``gold``; then nothing else is held out, and training trees of the same
            sentences are left out.
        tags: "normalised" writes part-of-speech tags as the paper does; "own" keeps them.
        function_tags: whether labels keep function tags and indices (NP-SBJ-1); else they are cut (NP).
        dev_fraction: see Source.

    Raises:
        UserError: if both or none of ``gold`` and ``corpus`` are given, or a path or NLTK's data is missing; while
            reading, if brackets do not match.
    """

    name = "trees"
    columns = 2
    symbols = True

    def __init__(
        self,
        *,
        gold: str | Sequence[str] | None = None,
        corpus: str | None = None,
        machine: str | Sequence[str] | None = None,
        gold_repeats: Count = 5,
        dev_path: str | Sequence[str] | None = None,
        tags: Literal["normalised", "own"] = "normalised",
        function_tags: bool = False,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(dev_fraction=dev_fraction)
        if (gold is None) == (corpus is None):
            raise UserError("set this or corpus, and only one of them", key="trees.gold")
        self.gold_repeats = gold_repeats if machine is not None else 1
        self.tags = tags
        self.function_tags = function_tags
        self._reader: Any = None if corpus is None else corpus_reader(corpus, "trees.corpus", "parsed_sents")
        held_out = find_files(dev_path, KINDS, "trees.dev_path")
        self._part: Part | None = "train" if held_out else None
        gold_files = self._reader.fileids() if self._reader else find_files(gold, KINDS, "trees.gold")
        # Held-out trees come first, as the others leave their sentences out. A str is a file of NLTK's corpus.
        self._files: list[tuple[Path | str, Part | None, bool]] = [(file, "dev", True) for file in held_out]
        self._files += [(file, self._part, True) for file in gold_files if file not in held_out]
        machine_files = find_files(machine, KINDS, "trees.machine")
        self._files += [(file, "train", False) for file in machine_files if file not in held_out]
        nltk_names = [f"nltk {corpus}"] if corpus else []
        self._where = [*nltk_names, *as_list(gold), *as_list(machine), *as_list(dev_path)]

    def examples(self) -> Iterator[Example]:
        held_out = set[int]()  # split hashes
        for file, part, is_gold in self._files:
            for tree in read_trees(self._lines(file), str(file)):
                bare = pruned(tree, function_tags=self.function_tags)
                if bare is None:
                    self.skipped["without words"] += 1
                    continue
                sentence = " ".join(words(bare))
                split = split_hash(None, sentence)
                part_by_hash = part_of(part if is_gold else self._part, split, self.dev_fraction)
                if part == "dev":
                    held_out.add(split)
                elif split in held_out or (not is_gold and part_by_hash == "dev"):
                    self.skipped["held out"] += 1
                    continue
                repeats = self.gold_repeats if is_gold and part_by_hash == "train" else 1
                yield Example((sentence, linearised(bare, tags=self.tags)), part=part, repeats=repeats)

    def identity(self) -> Iterator[str]:
        yield f"{VERSION} {self.tags} {self.function_tags} {self.gold_repeats} {self.dev_fraction}"
        for file, part, is_gold in self._files:
            content = digest(file) if isinstance(file, Path) else self._reader.raw(file)
            yield f"{part} {is_gold} {content}"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "where": ", ".join(self._where), "licence": None}

    def _lines(self, file: Path | str) -> Lines:
        return lines(file) if isinstance(file, Path) else enumerate(self._reader.raw(file).split("\n"), 1)


def read_trees(numbered: Lines, where: str) -> Iterator[Tree]:
    """Yields the trees in some lines, in their order, unchanged.

    Args:
        numbered: number and text of each line.
        where: name of the file, for messages.

    Raises:
        UserError: if brackets do not match, or a word stands where none can.
    """
    stack: list[list[str | Tree]] = []  # label, word and children within each open bracket
    for number, line in numbered:
        with reading("line of trees in brackets", f"{where}:{number}"):
            for piece in _PIECE.findall(line):
                if piece == "(":
                    stack.append([])
                elif piece != ")":
                    stack[-1].append(piece)
                else:
                    tree = close_bracket(stack.pop())
                    if stack:
                        stack[-1].append(tree)
                    else:
                        yield tree
    if stack:
        raise UserError("the last tree is not closed", key=where)


def close_bracket(content: Sequence[str | Tree]) -> Tree:
    """Returns the tree of one bracket: a label and children, or a tag and a word.

    Raises:
        ValueError: if both a word and children stand in it, or two words.
    """
    names = [item for item in content if isinstance(item, str)]
    children = tuple(item for item in content if isinstance(item, Tree))
    if len(names) > (1 if children else 2):
        raise ValueError(f"{names[-1]!r} instead of a bracket")
    label, word = (*names, "", "")[:2]
    return Tree(label, children, word)


def pruned(tree: Tree, *, function_tags: bool = False) -> Tree | None:
    """Removes bare root, empty constituents and (by default) function tags; returns None if nothing is left.

    Tags and words stay as they are, except that escaped brackets in words are restored.
    """
    if not tree.children:
        if tree.label == EMPTY_ELEMENT or not tree.word:
            return None
        return Tree(tree.label, word=_ESCAPED.sub(lambda match: ESCAPED[match[0]], tree.word))
    below = (pruned(child, function_tags=function_tags) for child in tree.children)
    children = tuple(child for child in below if child is not None)
    if not children:
        return None
    if tree.label in ROOTS and len(children) == 1:
        return children[0]
    label = tree.label or "ROOT"
    return Tree(label if function_tags else _FUNCTION.sub(r"\1", label), children)


def words(tree: Tree) -> list[str]:
    """Returns the words of ``tree``, in their order."""
    return [word for child in tree.children for word in words(child)] if tree.children else [tree.word]


def linearised(tree: Tree, *, tags: Literal["normalised", "own"] = "normalised") -> str:
    """Returns ``tree`` without its words, in one line, in the notation of the module's docstring."""
    if not tree.children:
        return tree.label if tags == "own" or tree.label in PUNCTUATION else WORD
    inside = " ".join(linearised(child, tags=tags) for child in tree.children)
    return f"({tree.label} {inside} ){tree.label}"
