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
from itertools import pairwise
from typing import NamedTuple

import pandas as pd

from data.sources.reading import find_files, lines
from data.sources.trees import KINDS, PUNCTUATION, Tree, read_trees

PARTS = ("train", "dev", "test")
CLAUSE = re.compile("S|SINV|SQ|SBARQ")
FINITE = re.compile("VB[DZP]?|MD")  # VB at the top of a main clause is an imperative
VERB = re.compile("VB[DZPNG]?|MD|TO")
LEFT_OUT = (*PUNCTUATION, "HYPH", "NFP", "$", "#")  # tags that are in no top sequence
AUXILIARY = re.compile("be|am|is|are|was|were|been|being|['’](s|re|m)|ai|gets?|got|gotten|getting")


class Sentence(NamedTuple):
    """A sentence and its labels from the tree; None if it has none.

    Attributes:
        text: leaves of the tree, joined by spaces as in SentEval.
        passive: True if the main clause is passive.
        tense: True if it is in the past tense.
        tss: top syntactic sequence, as "NP-VP".
    """

    text: str
    passive: bool | None = None
    tense: bool | None = None
    tss: str | None = None


def read_sentences(data: str) -> pd.DataFrame:
    """Reads the sentences of a folder of trees, without repetitions within and across parts.

    Args:
        data: folder with files of trees for each part, named after it (gum_train.ptb.gz).

    Returns:
        A row for each sentence, with the fields of ``Sentence``, indexed by part: "train", "dev" and "test".

    Raises:
        UserError: if trees are missing or cannot be read.
    """
    parts = {}
    for part in PARTS:
        paths = find_files(f"{data}/*{part}.*", KINDS, "data")
        trees = (tree for path in paths for tree in read_trees(lines(path), str(path)))
        parts[part] = pd.DataFrame(map(label_clause, trees), columns=Sentence._fields)
    return pd.concat(parts, names=["part"]).droplevel(1).drop_duplicates("text")


def label_clause(clause: Tree) -> Sentence:
    """Returns the sentence of a pruned tree with its labels."""
    text, chain = " ".join(clause.leaves()), list_verbs(clause)
    if not CLAUSE.fullmatch(clause.label()) or not chain or not FINITE.fullmatch(chain[0][0]):
        return Sentence(text)
    top = "-".join(child.label() for child in clause if child.label() not in LEFT_OUT)
    return Sentence(text, is_passive(chain), chain[0][0] == "VBD", top)


def list_verbs(clause: Tree) -> list[tuple[str, str]]:
    """Returns the main clause's chain of verbs from the top, as (tag, lower-case word): was - being - seen.

    Only the first of coordinated clauses or verb phrases is used.
    """
    chain, later = [], [child for child in clause if isinstance(child, Tree)]
    for place, child in enumerate(later):
        if isinstance(child[0], str) and VERB.fullmatch(child.label()):
            chain, later = [(child.label(), child[0].lower())], later[place + 1 :]
            break
    phrases = [child for child in later if child.label() == "VP"]
    if not chain and not phrases:
        phrases = [child for child in later if CLAUSE.fullmatch(child.label())]
    return chain + list_verbs(phrases[0]) if phrases else chain


def is_passive(chain: list[tuple[str, str]]) -> bool:
    """Returns True if a chain of ``list_verbs`` is in the passive voice.

    "'s been" is read as "has been". Before any other participle "'s" is read as "is", which is wrong for "he's
    seen it".
    """
    return any(
        AUXILIARY.fullmatch(word) and following == "VBN" and participle not in ("been", "got", "gotten")
        for (_, word), (following, participle) in pairwise(chain)
    )
