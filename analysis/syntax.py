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
from bisect import bisect
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from data.randomness import EVALUATED_SPLIT, generator
from data.sources.nltk_corpus import corpus_reader
from data.sources.reading import find_files, lines
from data.sources.trees import KINDS, PUNCTUATION, Tree, pruned, read_trees, words

TREEBANK = "treebank"  # NLTK's sample of the Penn Treebank, in place of a folder of trees
PARTS = ("train", "dev", "test")
LENGTHS = (
    5,
    9,
    13,
    17,
    21,
    26,
    30,
    34,
    71,
)  # bounds of the bins of numbers of words, Adi et al. (2016)
CLAUSE = re.compile("S|SINV|SQ|SBARQ")
FINITE = re.compile("VB[DZP]?|MD")  # VB at the top of a main clause is an imperative
VERB = re.compile("VB[DZPNG]?|MD|TO")
LEFT_OUT = (*PUNCTUATION, "HYPH", "NFP", "$", "#")  # tags that are in no top sequence
AUXILIARY = re.compile("be|am|is|are|was|were|been|being|['’](s|re|m)|ai|gets?|got|gotten|getting")


class Sentence(NamedTuple):
    """A sentence and its labels from the tree; None if it has none.

    Attributes:
        words: leaves of the tree.
        passive: True if the main clause is passive.
        tense: True if it is in the past tense.
        tss: top syntactic sequence, as "NP-VP".
    """

    words: tuple[str, ...]
    passive: bool | None = None
    tense: bool | None = None
    tss: str | None = None

    @property
    def length(self) -> int | None:
        """The bin of the number of words, 0 .. 7; None outside all bins."""
        place = bisect(LENGTHS, len(self.words))
        return place - 1 if 0 < place < len(LENGTHS) else None

    @property
    def text(self) -> str:
        """The words, joined by spaces as in SentEval."""
        return " ".join(self.words)


def read_parts(data: str, seed: int = 0) -> dict[str, list[Sentence]]:
    """Reads the sentences of "train", "dev" and "test", without repetitions within and across parts.

    Args:
        data: a folder with files of trees for each part, named after it (gum_train.ptb.gz), or "treebank":
            NLTK's sample of the Penn Treebank, split by files.
        seed: seed of that split.

    Raises:
        UserError: if trees are missing or cannot be read.
    """
    if data == TREEBANK:
        reader = corpus_reader(TREEBANK, "data")
        names = generator(EVALUATED_SPLIT, seed).permutation(reader.fileids())
        groups = np.split(names, [round(len(names) * share) for share in (0.8, 0.9)])
        files: list[Any] = [
            [(name, enumerate(reader.raw(name).split("\n"), 1)) for name in group] for group in groups
        ]
    else:
        paths = [find_files(f"{data}/*{part}.*", KINDS, "data") for part in PARTS]
        files = [[(str(path), lines(path)) for path in group] for group in paths]
    parts: dict[str, list[Sentence]] = {}
    seen: set[str] = set()
    for part, group in zip(PARTS, files, strict=True):
        parts[part] = []
        for sentence in (label_tree(tree) for name, text in group for tree in read_trees(text, name)):
            if sentence.words and sentence.text not in seen:
                seen.add(sentence.text)
                parts[part].append(sentence)
    return parts


def label_tree(tree: Tree) -> Sentence:
    """Returns the sentence of ``tree`` with its labels."""
    clause = pruned(tree)
    if clause is None:
        return Sentence(())
    leaves, chain = tuple(words(clause)), list_verbs(clause)
    if not CLAUSE.fullmatch(clause.label) or not chain or not FINITE.fullmatch(chain[0][0]):
        return Sentence(leaves)
    top = "-".join(child.label for child in clause.children if child.label not in LEFT_OUT)
    return Sentence(leaves, is_passive(chain), chain[0][0] == "VBD", top)


def list_verbs(clause: Tree) -> list[tuple[str, str]]:
    """Returns the main clause's chain of verbs from the top, as (tag, lower-case word): was - being - seen.

    Only the first of coordinated clauses or verb phrases is used.
    """
    chain: list[tuple[str, str]] = []
    node: Tree | None = clause
    while node is not None:
        verbs = [place for place, child in enumerate(node.children) if child.word and VERB.fullmatch(child.label)]
        for place in verbs[:1]:
            chain.append((node.children[place].label, node.children[place].word.lower()))
        deeper = [child for child in node.children[verbs[0] + 1 if verbs else 0 :] if child.children]
        phrases = [child for child in deeper if child.label == "VP"]
        if not verbs and not phrases:
            phrases = [child for child in deeper if CLAUSE.fullmatch(child.label)]
        node = phrases[0] if phrases else None
    return chain


def is_passive(chain: list[tuple[str, str]]) -> bool:
    """Returns True if a chain of ``list_verbs`` is in the passive voice.

    "'s been" is read as "has been". Before any other participle "'s" is read as "is", which is wrong for "he's
    seen it".
    """
    return any(
        AUXILIARY.fullmatch(word) and following == "VBN" and participle not in ("been", "got", "gotten")
        for (_, word), (following, participle) in pairwise(chain)
    )
