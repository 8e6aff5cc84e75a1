"""Syntactic labels of trees, by hand and on real trees, and reading of train, dev and test parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.syntax import AUXILIARY, label_clause, read_sentences
from data.sources.trees import Tree, read_trees
from tests.real_data import suite_data

# Labels by tree: passive, past, sequence of top constituents.
CASES = {
    "(ROOT (S (NP-SBJ (NN rain)) (VP (VBD fell)) (. .)))": (False, True, "NP-VP"),
    "((S (NP-SBJ-1 (NN it)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)))) (. .)))": (True, True, "NP-VP"),
    "(S (NP (NN it)) (VP (VBZ has) (VP (VBN been) (VP (VBN seen)))))": (True, False, "NP-VP"),
    "(S (NP (NN it)) (VP (VBZ is) (VP (VBG being) (VP (VBN seen)))))": (True, False, "NP-VP"),
    "(S (NP (NN it)) (VP (VBZ 's) (VP (VBN been) (ADJP (JJ warm)))))": (False, False, "NP-VP"),
    "(S (NP (NN it)) (VP (VBZ 's) (VP (VBN been) (VP (VBN sold)))))": (True, False, "NP-VP"),
    "(S (NP (NN he)) (VP (VBD had) (VP (VBN seen) (NP (NN it)))))": (False, True, "NP-VP"),
    "(S (NP (NN he)) (VP (VBD got) (VP (VBN hurt))))": (True, True, "NP-VP"),
    "(S (NP (NN it)) (VP (MD will) (VP (VB be) (VP (VBN sold)))))": (True, False, "NP-VP"),
    # The verb of the main clause decides, wherever a subordinate clause stands.
    "(S (SBAR (IN as) (S (NP (NN it)) (VP (VBD fell)))) (, ,) (NP (NN he)) (VP (VBZ runs)))": (
        False,
        False,
        "SBAR-NP-VP",
    ),
    "(S (NP (NN he)) (VP (VBD wanted) (S (VP (TO to) (VP (VB be) (VP (VBN seen)))))))": (False, True, "NP-VP"),
    "(SBARQ (WHNP (WP what)) (SQ (VBD was) (NP (NN it)) (VP (VBN called))) (. ?))": (True, True, "WHNP-SQ"),
    "(SINV (`` ``) (S (NP (PRP I)) (VP (VBP go))) ('' '') (VP (VBD said)) (NP (NN he)))": (False, True, "S-VP-NP"),
    # The first of coordinated parts decides.
    "(S (S (NP (NN a)) (VP (VBD fell))) (CC and) (S (NP (NN b)) (VP (VBZ runs))))": (False, True, "S-CC-S"),
    "(S (NP (NN a)) (VP (VP (VBZ is) (VP (VBN sold))) (CC and) (VP (VBD fell))))": (True, False, "NP-VP"),
    "(S (VP (VB Go) (ADVP (RB on))) (. !))": (False, False, "VP"),
    # Trees without a finite verb or without a clause have no labels.
    "(S (VP (TO to) (VP (VB see) (NP (PRP it)))))": (None, None, None),
    "(ROOT (NP (NN Introduction)))": (None, None, None),
    "(ROOT (FRAG (RB not) (NP (NN me))))": (None, None, None),
}


def clause_of(text: str) -> Tree:
    [clause] = read_trees([text], "made")
    return clause


@pytest.mark.parametrize(("tree", "labels"), list(CASES.items()), ids=[*CASES])
def test_labels_by_hand(tree: str, labels: tuple[bool | None, bool | None, str | None]) -> None:
    sentence = label_clause(clause_of(tree))
    assert (sentence.passive, sentence.tense, sentence.tss) == labels


def test_parts_share_no_sentence(tmp_path: Path) -> None:
    (tmp_path / "a_train.ptb").write_text("(S (NP (NN x)) (VP (VBZ is)))\n\n(S (NP (NN x)) (VP (VBZ is)))\n")
    (tmp_path / "a-dev.mrg").write_text("(S (NP (NN y)) (VP (VBZ is)))\n")
    (tmp_path / "test.ptb").write_text("(S (NP (NN x)) (VP (VBZ is)))\n(S (NP (NN z)) (VP (VBZ is)))\n")
    (tmp_path / "a_test2.ptb").write_text("(S (NP (NN w)) (VP (VBZ is)))\n")
    parts = read_sentences(str(tmp_path))["text"]
    assert [*parts.items()] == [("train", "x is"), ("dev", "y is"), ("test", "z is")]


def test_labels_of_real_trees() -> None:
    sentences = read_sentences(str(suite_data("parsing"))).loc["dev"]
    labelled = sentences.dropna(subset="passive")
    assert len(sentences) == 1490 and len(labelled) > 1250
    passive = labelled[labelled["passive"].astype(bool)]
    assert 0.04 < len(passive) / len(labelled) < 0.12
    assert all(any(map(AUXILIARY.fullmatch, text.lower().split())) for text in passive["text"])
