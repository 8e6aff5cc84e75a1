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

from data.errors import UserError
from data.pairs import Pair, PairSource, pair_hash
from data.ranges import Below1, Count
from data.sources.base import Part
from data.sources.reading import digest, find_files, lines

VERSION = "3"  # of ``pruned``, ``words`` and ``linearised``: raise it where a tree would give another pair
DEEPEST = 150  # nested constituents; sentences have a third of it at most
KINDS = (".ptb", ".ptb.gz", ".mrg", ".mrg.gz", ".txt", ".txt.gz")
ROOTS = {"", "ROOT", "TOP", "S1"}
EMPTY_ELEMENT = "-NONE-"
PUNCTUATION = {".", ",", ":", "``", "''", "-LRB-", "-RRB-"}  # tags that stand for themselves
WORD = "XX"  # every other tag
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
ESCAPED |= {r"\/": "/", r"\*": "*"}
_ESCAPED = re.compile(r"-[LR][RCS]B-|\\[/*]")
_PIECE = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"^([^-=]+)[-=].*")  # NP-SBJ-1, NP=2; not -LRB-


class Tree(NamedTuple):
    """A constituent with children, or a part-of-speech tag with its word ("" in a tree without words)."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str = ""


class Trees(PairSource):
    """Sentences (tokens, separated by blanks) and their trees.

    Trees are bracketed as in the Penn Treebank, "(S (NP (DT the) ...", over any number of lines. Escaped brackets
    in words ("-LRB-") are restored. Empty elements, constituents that are empty without them, and a root that only
    holds the tree are left out.

    Args:
        gold: file, folder (with all .mrg, .ptb, .txt files in it, or these with .gz), glob, or a list of these.
        corpus: instead of ``gold``, a parsed corpus of NLTK ("treebank").
        machine: trees of a parser in addition to the gold ones, as ``gold``; none of them is held out, and those
            of held-out sentences are left out.
        gold_repeats: how many times a gold training tree occurs if there are ``machine`` ones.
        dev_path: held-out gold trees, as ``gold``; then nothing else is held out, and training
            trees of the same sentences are left out.
        tags: "normalised" writes part-of-speech tags as the paper does; "own" keeps them.
        function_tags: whether labels keep function tags and indices (NP-SBJ-1); else they are cut (NP).
        dev_fraction: see PairSource.

    Raises:
        UserError: if both or none of ``gold`` and ``corpus`` are given, or a path or NLTK's data is missing; while
            reading, if brackets do not match, or a tree is too deep.
    """

    name = "trees"
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
        self.corpus = corpus
        self.gold_repeats = gold_repeats if machine is not None else 1
        self.tags = tags
        self.function_tags = function_tags
        self._reader = None if corpus is None else _parsed(corpus)
        held_out = find_files(dev_path, KINDS, "trees.dev_path")
        self._part: Part | None = "train" if held_out else None
        files: list[tuple[Path, Part | None, bool]] = [
            *((path, self._part, True) for path in find_files(gold, KINDS, "trees.gold")),
            *((path, "train", False) for path in find_files(machine, KINDS, "trees.machine")),
        ]
        self._files = [entry for entry in files if entry[0] not in held_out]
        self._files.extend((path, "dev", True) for path in held_out)

    def pairs(self) -> Iterator[Pair]:
        held_out = set[int]()  # files of held-out trees come first: the others leave their sentences out
        for path in (path for path, part, _ in self._files if part == "dev"):
            for pair in self._pairs(read_trees(lines(path), str(path)), "dev", held_out, gold=True):
                held_out.add(pair_hash(pair))
                yield pair
        if self._reader is not None:
            for name in self._reader.fileids():
                numbered = enumerate(self._reader.raw(name).split("\n"), 1)
                yield from self._pairs(read_trees(numbered, name), self._part, held_out, gold=True)
        for path, part, gold in self._files:
            if part != "dev":
                yield from self._pairs(read_trees(lines(path), str(path)), part, held_out, gold=gold)

    def identity(self) -> Iterator[str]:
        yield f"{VERSION} {self.tags} {self.function_tags} {self.gold_repeats}"
        if any(part == "dev" for _, part, _ in self._files):
            yield "held out first"
        if not all(gold for *_, gold in self._files):
            yield str(self.dev_fraction)  # decides which gold trees repeat, and which of a parser are left out
        if self._reader is not None:
            yield from (self._reader.raw(name) for name in self._reader.fileids())
        for path, part, gold in self._files:
            yield f"{part} {gold} {digest(path)}"

    def describe(self) -> dict[str, Any]:
        where = [f"nltk {self.corpus}"] if self.corpus is not None else []
        where += [str(path) for path, _, _ in self._files]
        return {"name": self.name, "where": ", ".join(where), "licence": None}

    def _pairs(
        self, trees: Iterable[Tree], part: Part | None, held_out: set[int], *, gold: bool
    ) -> Iterator[Pair]:
        for tree in trees:
            bare = pruned(tree, function_tags=self.function_tags)
            if bare is None:
                self.skipped["without words"] += 1
                continue
            pair = Pair((" ".join(words(bare)),), linearised(bare, tags=self.tags), part)
            by_hash = part == "train" != self._part and self.part_of(pair._replace(part=None)) == "dev"
            if by_hash or (part == "train" and pair_hash(pair) in held_out):
                self.skipped["held out"] += 1
                continue
            again = gold and self.gold_repeats > 1 and self.part_of(pair) == "train"
            yield from [pair] * (self.gold_repeats if again else 1)


def read_trees(numbered: Iterable[tuple[int, str]], where: str) -> Iterator[Tree]:
    """Yields the trees in some lines, in their order, unchanged.

    Args:
        numbered: number and text of each line.
        where: name of the file, for messages.

    Raises:
        UserError: if brackets do not match, a word stands where none can, or a tree is too deep.
    """
    stack: list[tuple[list[str], list[Tree]]] = []  # of each open bracket: label and word, children
    number = 0
    for number, line in numbered:
        for piece in _PIECE.findall(line):
            if piece == "(":
                stack.append(([], []))
                if len(stack) > DEEPEST:
                    raise UserError(f"a tree of more than {DEEPEST} nested brackets", key=f"{where}:{number}")
            elif not stack:
                raise UserError(f"{piece!r} outside of a tree", key=f"{where}:{number}")
            elif piece != ")":
                names, children = stack[-1]
                names.append(piece)
                if children or len(names) > 2:
                    raise UserError(f"{piece!r} instead of a bracket", key=f"{where}:{number}")
            else:
                names, children = stack.pop()
                if children and len(names) > 1:
                    raise UserError(f"{names[1]!r} beside a bracket", key=f"{where}:{number}")
                label, word = (*names, "", "")[:2]
                tree = Tree(label, tuple(children), word)
                if stack:
                    stack[-1][1].append(tree)
                else:
                    yield tree
    if stack:
        raise UserError("the last tree is not closed", key=f"{where}:{number}")


def pruned(tree: Tree, *, function_tags: bool = False) -> Tree | None:
    """Removes bare root, empty constituents and (by default) function tags; returns None if nothing is left.

    Tags and words stay as they are, except that escaped brackets in words are restored.
    """
    if not tree.children:
        if tree.label == EMPTY_ELEMENT or not tree.word:
            return None
        return Tree(tree.label, word=_ESCAPED.sub(lambda found: ESCAPED[found[0]], tree.word))
    found = (pruned(child, function_tags=function_tags) for child in tree.children)
    children = tuple(child for child in found if child is not None)
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


def _parsed(corpus: str) -> Any:
    from nltk.corpus.reader import BracketParseCorpusReader  # nltk takes long to import

    from data.sources.nltk_corpus import corpus_reader

    reader = corpus_reader(corpus, "trees.corpus")
    if not isinstance(reader, BracketParseCorpusReader):
        raise UserError(f"nltk's {corpus!r} has no trees", key="trees.corpus", hint="treebank has.")
    return reader
