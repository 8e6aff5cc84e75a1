"""Trees: bracketed files are read, pruned, linearised and read back."""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import nltk.data
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.corpus.reader import BracketParseCorpusReader
from nltk.corpus.util import LazyCorpusLoader

from data.errors import UserError
from data.sources.base import Example
from data.sources.trees import Tree, Trees, linearised, pruned, read_trees, words
from tests.data.brackets import delinearised
from tests.real_data import suite_data

JOHN = "(ROOT (S (NP-SBJ (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))"
TRACES = """
( (S (NP-SBJ-1 (DT The) (NN king) (-LRB- -LRB-) (NNP I\\/II) (-RRB- -RRB-))
     (VP (VBD was)
         (VP (VBN seen) (NP (-NONE- *-1)) (PP (IN by) (NP=2 (-NONE- *)))))
     (. ?)))"""
CLEANED = "(S (NP XX XX -LRB- XX -RRB- )NP (VP XX (VP XX (PP XX )PP )VP )VP . )S"


def read(text: str) -> list[Tree]:
    return list(read_trees(enumerate(text.split("\n"), 1), "a.mrg"))


def labels() -> st.SearchStrategy[str]:
    return st.sampled_from(["S", "NP", "VP", "SBAR", "NN", "PRP$", ".", ",", "``", "-LRB-", "XX"])


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.builds(lambda label, word: Tree(label, word=word), labels(), st.text("abc(", min_size=1))
    return st.recursive(
        leaves,
        lambda children: st.builds(
            lambda label, below: Tree(label, tuple(below)), labels(), st.lists(children, min_size=1, max_size=4)
        ),
        max_leaves=25,
    )


def unlexicalised(tree: Tree) -> Tree:
    return Tree(tree.label, tuple(map(unlexicalised, tree.children)))


@given(trees())
def test_a_line_is_read_back_to_the_same_tree(tree: Tree) -> None:
    line = linearised(tree, tags="own")
    assert delinearised(line) == unlexicalised(tree)
    normalised = linearised(tree)
    assert linearised(delinearised(normalised), tags="own") == normalised
    assert len(normalised.split()) == len(line.split())


@given(trees())
def test_brackets_are_read_back_to_the_same_tree(tree: Tree) -> None:
    def bracketed(tree: Tree) -> str:
        inside = tree.word.replace("(", "-LRB-") or " ".join(map(bracketed, tree.children))
        return f"({tree.label}\n {inside})"

    [found] = read(bracketed(tree))
    assert [word.replace("-LRB-", "(") for word in words(found)] == words(tree)
    assert unlexicalised(found) == unlexicalised(tree)


def test_linearised_trees_equal_the_examples_of_vinyals_et_al() -> None:
    [john] = read(JOHN)
    cleaned = pruned(john)
    assert cleaned is not None
    assert linearised(cleaned, tags="own") == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert linearised(cleaned) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
    [go] = read("(S (VP (VB Go)) (. .))")
    assert linearised(go) == "(S (VP XX )VP . )S"


def test_traces_and_function_tags_are_pruned_and_brackets_restored() -> None:
    [tree] = read(TRACES)
    cleaned = pruned(tree)
    assert cleaned is not None
    assert words(cleaned) == ["The", "king", "(", "I/II", ")", "was", "seen", "by", "?"]
    assert linearised(cleaned) == CLEANED
    with_tags = pruned(tree, function_tags=True)
    assert with_tags is not None and linearised(with_tags).startswith("(S (NP-SBJ-1 XX")
    [only_traces] = read("(S (NP (-NONE- *)) (VP (-NONE- *)))")
    assert pruned(only_traces) is None
    [two] = read("( (NP (NN a)) (NP (NN b)))")
    assert pruned(two) == Tree("ROOT", (Tree("NP", (Tree("NN", word="a"),)), Tree("NP", (Tree("NN", word="b"),))))


def test_gold_repeats_beside_machine_parses_in_training_only(tmp_path: Path) -> None:
    for name, count in (("gold", 40), ("machine", 60)):
        (tmp_path / name).mkdir()
        lines = [f"(S (NP (NN {name}{i})) (VP (VBZ sleeps)))" for i in range(count)]
        with gzip.open(tmp_path / name / "trees.mrg.gz", "wt") as file:
            file.write("\n".join([*lines, "(S (-NONE- *))"]))
    paths: dict[str, Any] = {"gold": str(tmp_path / "gold"), "machine": str(tmp_path / "machine" / "*.gz")}
    source = Trees(**paths, gold_repeats=3, dev_fraction=0.2)
    examples = list(source.read())
    left_out = source.skipped.pop("held out")  # machine parses of sentences that would be held out
    assert source.skipped == {"without words": 2} and 0 < left_out < 30 and len(examples) == 100 - left_out
    for example in examples:
        repeated = example.texts[0].startswith("gold") and source.assign_part(example) == "train"
        assert example.repeats == (3 if repeated else 1)
    held_out = [example.texts[0] for example in examples if source.assign_part(example) == "dev"]
    assert 0 < len(held_out) < 20 and all(text.startswith("gold") for text in held_out)
    again = Trees(gold=paths["gold"], machine=paths["gold"], dev_fraction=0.2)
    repeats = Counter[str]()
    for example in again.read():
        repeats[example.texts[0]] += example.repeats
    assert (
        set(repeats.values()) == {1, 6} and len(repeats) == 40
    )  # gold only; five times, and the parse of the parser
    assert {example.repeats for example in Trees(gold=paths["gold"], gold_repeats=3).read()} == {1}
    assert source.fingerprint != Trees(**paths, gold_repeats=3, dev_fraction=0.1).fingerprint


def test_held_out_trees_may_have_their_own_files(tmp_path: Path) -> None:
    for name in ("a.ptb", "b.ptb"):
        (tmp_path / name).write_text(JOHN.replace("John", name[0]))
    source = Trees(gold=str(tmp_path), machine=str(tmp_path / "a.ptb"), dev_path=str(tmp_path / "b.ptb"))
    target = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
    gold, machine, dev = (
        Example((f"{name} has a dog .", target), part=part, repeats=repeats)  # type: ignore[arg-type]
        for name, part, repeats in (("a", "train", 5), ("a", "train", 1), ("b", "dev", 1))
    )
    assert list(source.read()) == [dev, gold, machine]
    (tmp_path / "c.ptb").write_text(JOHN.replace("John", "b"))
    source = Trees(gold=str(tmp_path), machine=str(tmp_path / "c.ptb"), dev_path=str(tmp_path / "b.ptb"))
    assert list(source.read()) == [dev, gold] and source.skipped == {"held out": 2}


def test_trees_of_nltks_treebank(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = LazyCorpusLoader("treebank/combined", BracketParseCorpusReader, r"wsj_.*\.mrg")
    monkeypatch.setattr(nltk.corpus, "treebank", lazy)  # another test may have loaded nltk's own reader
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(UserError):
        Trees(corpus="treebank")
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    source = Trees(corpus="treebank")
    pairs = list(source.read())
    assert len(pairs) == 3914 and not source.skipped
    assert pairs[0].texts[0].startswith("Pierre Vinken , 61 years old , will join the board")
    assert pairs[0].texts[1] == (
        "(S (NP (NP XX XX )NP , (ADJP (NP XX XX )NP XX )ADJP , )NP (VP XX (VP XX (NP XX XX )NP "
        "(PP XX (NP XX XX XX )NP )PP (NP XX XX )NP )VP )VP . )S"
    )
    assert not any("*T*" in pair.texts[0] or "-NONE-" in pair.texts[1] for pair in pairs)


def test_trees_of_gum() -> None:
    source = Trees(
        gold=str(suite_data("parsing/gum_test.ptb.gz")), dev_path=str(suite_data("parsing/gum_dev.ptb.gz"))
    )
    pairs = list(source.read())
    assert Counter(pair.part for pair in pairs) == {"train": 1430, "dev": 1575}
    assert source.skipped == {"held out": 34}  # short sentences that both files have
    for pair in islice(pairs, 0, None, 10):
        line = pair.texts[1]
        assert linearised(delinearised(line), tags="own") == line
        leaves = [symbol for symbol in line.split() if symbol[0] not in "()"]
        assert len(leaves) == len(pair.texts[0].split()) and "-SBJ" not in line


def test_the_version_of_trees_is_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.mrg").write_text(JOHN)

    before = Trees(gold=str(tmp_path / "a.mrg")).fingerprint
    assert Trees(gold=str(tmp_path / "a.mrg")).fingerprint == before
    monkeypatch.setattr("data.sources.trees.VERSION", "another")
    assert Trees(gold=str(tmp_path / "a.mrg")).fingerprint != before


@pytest.mark.parametrize("text", ["(S (NN a)", "(S a))", "(S (NN a) b)", "(S a b c)", "(S" * 200])
def test_brackets_must_match(text: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert error.value.key in ("a.mrg:1", "a.mrg")


def test_errors_name_the_key(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [{}, {"gold": "a", "corpus": "b"}, {"gold": f"{tmp_path}/none"}]
    for options in cases:
        with pytest.raises(UserError) as error:
            Trees(**options)
        assert error.value.key == "trees.gold"
    with pytest.raises(UserError) as error:
        Trees(corpus="brown")
    assert error.value.key == "trees.corpus"
