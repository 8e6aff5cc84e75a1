"""Labels of sentences from constituency trees: voice and tense of the main verb, top syntactic sequence.

    top syntactic sequence    the labels of the main clause's children, without function tags and punctuation
    tense                     past if the main clause's first verb is VBD, otherwise not (VBZ, VBP, MD, imperative)
    passive                   a form of "be" or "get" followed, in the chain of verbs, by a past participle (VBN)

The three properties are those of Shi, Padhi and Knight (2016), who take them from parses. The rules are new, for
trees as in the Penn Treebank. A sentence whose top is not a clause (a heading, "Hello!") or has no finite verb has
none of these labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.errors import UserError
from data.randomness import EVALUATED_SPLIT, generator
from data.sources.reading import lines
from data.sources.trees import PUNCTUATION, Tree, pruned, read_trees, words

TREEBANK = "treebank"  # NLTK's sample of the Penn Treebank, in place of a folder of trees
SUFFIXES = (".ptb", ".ptb.gz", ".mrg", ".mrg.gz")
CLAUSES = ("S", "SINV", "SQ", "SBARQ")
FINITE = ("VBD", "VBZ", "VBP", "VB", "MD")  # VB at the top of a main clause is an imperative
VERBS = (*FINITE, "VBN", "VBG", "TO")
BE = ("be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m", "’s", "’re", "’m", "ai")
GET = ("get", "gets", "got", "gotten", "getting")
UNSEEN = (*PUNCTUATION, "HYPH", "NFP", "$", "#")  # tags left out of a top sequence
SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}  # shares of the treebank's files


class Sentence(NamedTuple):
    """A sentence and its labels from the tree; None if it has none."""

    words: tuple[str, ...]
    passive: bool | None
    past: bool | None
    top: str | None

    @property
    def text(self) -> str:
        """The words, joined by spaces as in SentEval."""
        return " ".join(self.words)


def read_parts(data: str, seed: int = 0) -> dict[str, list[Sentence]]:
    """Reads the sentences of "train", "dev" and "test", without repetitions within and across parts.

    Args:
        data: a folder with a file of trees for each part, named after it (gum_train.ptb.gz), or "treebank":
            NLTK's sample of the Penn Treebank, split by files.
        seed: seed of that split.

    Raises:
        UserError: if trees are missing or cannot be read.
    """
    parts = _treebank(seed) if data == TREEBANK else _folder(Path(data).expanduser())
    seen: set[str] = set()
    result: dict[str, list[Sentence]] = {}
    for part, trees in parts.items():
        result[part] = []
        for tree in trees:
            sentence = described(tree)
            if sentence.words and sentence.text not in seen:
                seen.add(sentence.text)
                result[part].append(sentence)
    return result


def described(tree: Tree) -> Sentence:
    """Returns the sentence of ``tree`` with its labels."""
    bare = pruned(tree)
    if bare is None:
        return Sentence((), None, None, None)
    chain = verbs(bare) if bare.label in CLAUSES else []
    if not chain or chain[0][0] not in FINITE:
        return Sentence(tuple(words(bare)), None, None, None)
    return Sentence(tuple(words(bare)), is_passive(chain), chain[0][0] == "VBD", top_sequence(bare))


def top_sequence(clause: Tree) -> str:
    """Joins the labels of the clause's children, as in "NP-VP"."""
    return "-".join(child.label for child in clause.children if child.label not in UNSEEN)


def verbs(clause: Tree) -> list[tuple[str, str]]:
    """Returns the main clause's chain of verbs from the top, as (tag, lower-case word): was - being - seen.

    Only the first of coordinated clauses or verb phrases is used.
    """
    found: list[tuple[str, str]] = []
    node: Tree | None = clause
    while node is not None:
        place = next((i for i, child in enumerate(node.children) if child.word and child.label in VERBS), -1)
        if place >= 0:
            found.append((node.children[place].label, node.children[place].word.lower()))
        deeper = [child for child in node.children[place + 1 :] if child.children]
        phrases = [child for child in deeper if child.label == "VP"]
        if place < 0 and not phrases:
            phrases = [child for child in deeper if child.label in CLAUSES]
        node = phrases[0] if phrases else None
    return found


def is_passive(chain: list[tuple[str, str]]) -> bool:
    """Returns True if a chain of ``verbs`` is in the passive voice.

    "'s been" is read as "has been". Before any other participle "'s" is read as "is", which is wrong for "he's
    seen it".
    """
    return any(
        word in BE + GET and following == "VBN" and participle not in ("been", "got", "gotten")
        for (_, word), (following, participle) in pairwise(chain)
    )


def _folder(folder: Path) -> dict[str, Iterable[Tree]]:
    found: dict[str, Iterable[Tree]] = {}
    for part in SHARES:
        files = [
            path
            for path in sorted(folder.glob(f"*{part}*"))
            if path.name.endswith(SUFFIXES) and re.search(rf"(^|[_.-]){part}[_.-]", path.name)
        ]
        if not files:
            hint = f"data={TREEBANK} takes NLTK's sample."
            raise UserError(f"no file x_{part}.ptb.gz with a tree a line", key=str(folder), hint=hint)
        found[part] = (tree for path in files for tree in read_trees(lines(path), str(path)))
    return found


def _treebank(seed: int) -> dict[str, Iterable[Tree]]:
    from nltk.corpus import treebank  # late: the import searches for its files

    try:
        files = treebank.fileids()
    except LookupError:
        hint = "python -c \"import nltk; nltk.download('treebank')\" fetches it."
        raise UserError("NLTK's sample is not installed", key=f"data={TREEBANK}", hint=hint) from None
    order = generator(EVALUATED_SPLIT, seed).permutation(len(files))
    ends = [round(len(files) * share) for share in accumulate(SHARES.values())]
    return {
        part: (
            tree for i in chosen for tree in read_trees(enumerate(treebank.raw(files[i]).split("\n"), 1), files[i])
        )
        for part, chosen in zip(SHARES, np.split(order, ends[:-1]), strict=True)
    }
