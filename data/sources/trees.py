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

from nltk.tree import Tree

from data.errors import UserError, reading
from data.ranges import Below1, Count
from data.sources.base import Example
from data.sources.reading import as_list, find_files, lines
from data.sources.table import Row, Table

KINDS = (".ptb", ".mrg", ".txt")
ROOTS = {"", "ROOT", "TOP", "S1"}
EMPTY_ELEMENT = "-NONE-"
PUNCTUATION = {".", ",", ":", "``", "''", "-LRB-", "-RRB-"}  # tags that stand for themselves
WORD = "XX"  # every other tag
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_ESCAPED = re.compile(r"-[LR][RCS]B-|\\[/*]")
_FUNCTION = re.compile(r"^([^-=]+)[-=].*")  # NP-SBJ-1, NP=2; not -LRB-


class Trees(Table):
    """Sentences (tokens, separated by blanks) and their trees.

    Trees are bracketed as in the Penn Treebank, "(S (NP (DT the) ...", over any number of lines. Escaped brackets
    in words ("-LRB-") are restored. Function tags (NP-SBJ-1), empty elements, constituents that are empty without
    them, and a root that only holds the tree are left out.

    Args:
        gold: a file, a folder (with all .mrg, .ptb and .txt files in it, or these with .gz), a glob, or a list of
            these; NLTK's sample of the Penn Treebank is the folder corpora/treebank/combined of its data.
        machine: trees of a parser in addition to the gold ones, as ``gold``; none of them is held out, and those
            of held-out sentences are left out.
        gold_repeats: how many times a gold training tree occurs if there are ``machine`` ones.
        dev_path: held-out gold trees, as ``gold``; then nothing else is held out, and training trees of the same
            sentences are left out.
        dev_fraction: see Source.

    Raises:
        UserError: if a path is missing; while reading, if brackets do not match.
    """

    name = section = "trees"
    path_key = "gold"
    columns = 2
    symbols = True
    fields = ("tree",)
    kinds = KINDS

    def __init__(
        self,
        *,
        gold: str | Sequence[str],
        machine: str | Sequence[str] | None = None,
        gold_repeats: Count = 5,
        dev_path: str | Sequence[str] | None = None,
        dev_fraction: Below1 = 0.05,
    ) -> None:
        super().__init__(path=gold, dev_path=dev_path, dev_fraction=dev_fraction)
        self.gold_repeats = gold_repeats if machine else 1
        self._names += as_list(machine)
        self._places.sort(key=lambda place: place[1] != "dev")  # training trees leave out their sentences
        self._gold_places = len(self._places)
        self._places += [(file, self._places[-1][1]) for file in find_files(machine, KINDS, "trees.machine")]

    def examples(self) -> Iterator[Example]:
        held_out = set[str]()
        for number, (place, part) in enumerate(self._places):
            gold = number < self._gold_places
            for each in self.read_place(place):
                example = each._replace(part=part, repeats=self.gold_repeats if gold else 1)
                [sentence, _] = example.texts
                if part == "dev":
                    held_out.add(sentence)
                elif sentence in held_out or not (gold or self.assign_part(example) == "train"):
                    continue
                yield example

    def example(self, row: Row) -> Example:
        return Example((" ".join(row["tree"].leaves()), linearise(row["tree"])))

    def read_file(self, path: Path) -> Iterable[Row]:
        return ({"tree": tree} for tree in read_trees(lines(path), str(path)))

    def identity(self) -> Iterator[str]:
        # The first number is raised where a tree would give another pair.
        yield f"3 {self.gold_repeats} {self.dev_fraction} {self._gold_places}"
        yield from super().identity()


def read_trees(raw: Iterable[str], where: str) -> Iterator[Tree]:
    """Yields the trees in some lines, in their order, each after ``prune``, without those that are then empty.

    Args:
        raw: the lines.
        where: name of the file, for messages.

    Raises:
        UserError: if brackets do not match, or a word stands where none can.
    """
    text, depth = list[str](), 0
    for number, line in enumerate(raw, 1):
        text.append(line)
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            with reading("tree in brackets", f"{where}:{number}"):
                trees = [*map(prune, Tree.fromstring(f"({' '.join(text)})"))]
            yield from filter(None, trees)
            text, depth = [], 0
    if text:
        raise UserError("the last tree is not closed", key=where)


def prune(tree: Tree) -> Tree | None:
    """Removes bare root, empty constituents and function tags; returns None if nothing is left.

    Tags and words stay as they are, except that escaped brackets in words are restored.
    """
    label = tree.label()
    if len(tree) == 1 and isinstance(tree[0], str):
        word = _ESCAPED.sub(lambda match: BRACKETS.get(match[0], match[0][1:]), tree[0])
        return None if label == EMPTY_ELEMENT else Tree(label, [word])
    children = [child for child in map(prune, tree) if child is not None]
    if len(children) < 2 and (not children or label in ROOTS):
        return children[0] if children else None
    return Tree(_FUNCTION.sub(r"\1", label or "ROOT"), children)


def linearise(tree: Tree) -> str:
    """Returns ``tree`` without its words, in one line, in the notation of the module's docstring."""
    label = tree.label()
    if isinstance(tree[0], str):
        return label if label in PUNCTUATION else WORD
    return f"({label} {' '.join(map(linearise, tree))} ){label}"
