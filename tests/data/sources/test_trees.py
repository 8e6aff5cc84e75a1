"""Trees: bracketed files are read, pruned and linearised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from nltk.tree import Tree

from data.errors import UserError
from data.sources.base import Example
from data.sources.trees import Trees, linearise, read_trees
from tests.real_data import suite_data

JOHN = "(ROOT (S (NP-SBJ (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))"
TARGET = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
TRACES = """
( (S (NP-SBJ-1 (DT The) (NN king) (-LRB- -LRB-) (NNP I\\/II) (-RRB- -RRB-))
     (VP (VBD was)
         (VP (VBN seen) (NP (-NONE- *-1)) (PP (IN by) (NP=2 (-NONE- *)))))
     (. ?)))"""


def read(text: str) -> list[Tree]:
    return list(read_trees(text.split("\n"), "a.mrg"))


def test_linearised_trees_equal_the_examples_of_vinyals_et_al() -> None:
    john, go = read(f"{JOHN}\n(S (VP (VB Go)) (. .))")
    assert linearise(john) == TARGET and linearise(go) == "(S (VP XX )VP . )S"


def test_traces_and_function_tags_are_pruned_and_brackets_restored() -> None:
    [tree] = read(TRACES)
    assert tree.leaves() == ["The", "king", "(", "I/II", ")", "was", "seen", "by", "?"]
    assert linearise(tree) == "(S (NP XX XX -LRB- XX -RRB- )NP (VP XX (VP XX (PP XX )PP )VP )VP . )S"
    assert read("(S (NP (-NONE- *)) (VP (-NONE- *)))") == []
    assert read("( (NP (NN a)) (NP (NN b)))") == [Tree.fromstring("(ROOT (NP (NN a)) (NP (NN b)))")]


def test_gold_trees_repeat_beside_machine_parses_none_of_which_is_held_out(tmp_path: Path) -> None:
    for name in ("gold", "machine"):
        lines = [f"(S (NP (NN {name[0]}{i})) (VP (VBZ sleeps)))" for i in range(40)]
        (tmp_path / name).write_text("\n".join([*lines, "(S (-NONE- *))"]))
    gold, machine = str(tmp_path / "gold"), str(tmp_path / "machine")
    source = Trees(gold=gold, machine=machine, gold_repeats=3, dev_fraction=0.2)
    examples = list(source.read())
    kinds = {(example.texts[0][0], source.assign_part(example), example.repeats) for example in examples}
    assert kinds == {("g", "train", 3), ("g", "dev", 3), ("m", "train", 1)} and 40 < len(examples) < 80
    counts = Counter[str]()  # the same trees as a parser's: one each beside five, but for held-out sentences
    for example in Trees(gold=gold, machine=gold, dev_fraction=0.2).read():
        counts[example.texts[0]] += example.repeats
    assert set(counts.values()) == {5, 6} and len(counts) == 40
    assert {example.repeats for example in Trees(gold=gold, gold_repeats=3).read()} == {1}


def test_held_out_files_leave_their_sentences_to_no_other(tmp_path: Path) -> None:
    for name, tree in (("a", "a"), ("b", "b"), ("c", "b")):
        (tmp_path / f"{name}.ptb").write_text(JOHN.replace("John", tree) + "(S (-NONE- *))")
    a, b, c = (str(tmp_path / f"{name}.ptb") for name in "abc")
    dev, gold = (Example((f"{name} has a dog .", TARGET)) for name in "ba")
    parts = [
        dev._replace(part="dev", repeats=5),
        gold._replace(part="train", repeats=5),
        gold._replace(part="train"),
    ]
    assert list(Trees(gold=str(tmp_path), machine=[a, c], dev_path=b).read()) == parts


def test_trees_of_gum() -> None:
    gold, dev = (str(suite_data(f"parsing/gum_{name}.ptb.gz")) for name in ("test", "dev"))
    pairs = list(Trees(gold=gold, dev_path=dev).read())
    assert Counter(pair.part for pair in pairs) == {"train": 1430, "dev": 1575}  # 34 are in both
    for sentence, line in (pair.texts for pair in pairs):
        leaves = [symbol for symbol in line.split() if symbol[0] not in "()"]
        assert len(leaves) == len(sentence.split()) and line.count("(") == line.count(")") and "-SBJ" not in line


@pytest.mark.parametrize("text", ["(S a))", "(S (NN a) b)"])
def test_brackets_must_match(text: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert error.value.key in ("a.mrg:1", "a.mrg")
