"""Syntactic labels of trees, by hand and on real trees, and reading of train, dev and test parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.syntax import AUXILIARY, TREEBANK, label_tree, list_verbs, read_parts
from data.errors import UserError
from data.sources.reading import lines
from data.sources.trees import Tree, pruned, read_trees
from tests.analysis.evaluation_helpers import tree_folder
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


def tree_of(text: str) -> Tree:
    [tree] = read_trees([(1, text)], "made")
    return tree


@pytest.mark.parametrize(("tree", "labels"), list(CASES.items()), ids=[*CASES])
def test_labels_by_hand(tree: str, labels: tuple[bool | None, bool | None, str | None]) -> None:
    sentence = label_tree(tree_of(tree))
    assert (sentence.passive, sentence.tense, sentence.tss) == labels


def test_words_equal_those_of_the_sentence() -> None:
    tree = tree_of(
        r"(S (NP (NP (-NONE- *T*-1)) (NN A\/B)) (-LRB- -LRB-) (VP (VBZ is) (NP (-NONE- 0))) (-RRB- -RRB-))"
    )
    assert label_tree(tree).text == "A/B ( is )"


def test_the_chain_of_verbs_is_found() -> None:
    tree = tree_of("(S (NP (NN it)) (VP (MD Could) (VP (VB have) (VP (VBN been) (VP (VBN seen))))))")
    pruned_tree = pruned(tree)
    assert pruned_tree is not None and list_verbs(pruned_tree) == [
        ("MD", "could"),
        ("VB", "have"),
        ("VBN", "been"),
        ("VBN", "seen"),
    ]


def test_parts_share_no_sentence(tmp_path: Path) -> None:
    (tmp_path / "a_train.ptb").write_text("(S (NP (NN x)) (VP (VBZ is)))\n\n(S (NP (NN x)) (VP (VBZ is)))\n")
    (tmp_path / "a-dev.mrg").write_text("(S (NP (NN y)) (VP (VBZ is)))\n")
    (tmp_path / "test.ptb").write_text("(S (NP (NN x)) (VP (VBZ is)))\n(S (NP (NN z)) (VP (VBZ is)))\n")
    (tmp_path / "a_test2.ptb").write_text("(S (NP (NN w)) (VP (VBZ is)))\n")
    parts = read_parts(str(tmp_path))
    assert {part: [sentence.text for sentence in found] for part, found in parts.items()} == {
        "train": ["x is"],
        "dev": ["y is"],
        "test": ["z is"],
    }


def test_faults_of_the_files_are_reported(tmp_path: Path) -> None:
    tree_folder(tmp_path, (3, 2, 2))
    (tmp_path / "made_dev.ptb.gz").rename(tmp_path / "dev.mrg.gz")
    (tmp_path / "more_test.ptb").write_text("(S (NP (NN x))\n")
    with pytest.raises(UserError) as error:
        read_parts(str(tmp_path))
    assert error.value.key.startswith(str(tmp_path / "more_test.ptb"))
    (tmp_path / "dev.mrg.gz").unlink()
    with pytest.raises(UserError) as error:
        read_parts(str(tmp_path))
    assert error.value.key == "data"


def test_the_treebank_is_split_by_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    from nltk.corpus import treebank

    treebank.ensure_loaded()
    file_ids = treebank.fileids()[:20]
    monkeypatch.setattr(treebank, "fileids", lambda: file_ids, raising=False)
    parts, other = read_parts(TREEBANK, seed=0), read_parts(TREEBANK, seed=1)
    file_of_text = {
        label_tree(tree).text: number
        for number, name in enumerate(file_ids)
        for tree in read_trees([(1, treebank.raw(name))], name)
    }
    files = {part: {file_of_text[sentence.text] for sentence in found} for part, found in parts.items()}
    assert sum(map(len, files.values())) == len(set().union(*files.values())) == 20
    assert [len(found) for found in files.values()] == [16, 2, 2]
    assert other["test"] != parts["test"]


def test_labels_of_real_trees() -> None:
    folder = suite_data("parsing")
    path = folder / "gum_dev.ptb.gz"
    sentences = [label_tree(tree) for tree in read_trees(lines(path), str(path))]
    labelled = [sentence for sentence in sentences if sentence.passive is not None]
    assert len(sentences) == 1575 and len(labelled) > 1250
    passive = [sentence for sentence in labelled if sentence.passive]
    assert 0.04 < len(passive) / len(labelled) < 0.12
    assert all(any(map(AUXILIARY.fullmatch, sentence.text.lower().split())) for sentence in passive)
