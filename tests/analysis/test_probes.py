"""Probes: their questions, and which classifiers can answer them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import probes
from analysis.models import Model
from analysis.probes import evaluate_probes, make_questions
from analysis.senteval.classifiers import probe as trainers
from analysis.syntax import Sentence, read_sentences
from data.errors import UserError
from encoders.random_vectors import RandomVectors
from tests.analysis.evaluation_helpers import tree_folder


def table(sentences: list[Sentence], part: str = "train") -> pd.DataFrame:
    return pd.DataFrame(sentences, [part] * len(sentences))


def sentences(part: str, count: int, seed: int) -> pd.DataFrame:
    """Returns sentences of 3 to 12 words "w<number>", some with a capital W, with random labels."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        words = [f"{rng.choice([*'wwwwW'])}{number}" for number in rng.integers(60, size=rng.integers(3, 13))]
        result.append(Sentence(" ".join(words), bool(rng.random() < 0.1), None, f"T{rng.integers(30)}"))
    return table(result, part)


PARTS = pd.concat([sentences("train", 400, 0), sentences("dev", 150, 1), sentences("test", 150, 2)])


def test_content_questions_pair_a_word_inside_with_one_outside() -> None:
    questions = make_questions("content", PARTS, 0)
    for part, group in questions.groupby(level=0):
        texts, labels, words = (group[column].tolist() for column in group)
        long_enough = [text for text in PARTS.loc[part, "text"] if len(text.split()) >= 5]
        assert texts == [text for text in long_enough for _ in range(2)]
        assert labels == [1, 0] * len(long_enough)
        for text, label, word in zip(texts, labels, words, strict=True):
            assert (word.lower() in text.lower().split()) == label
        assert {*words[1::2]} <= {*words[::2]}  # every negative is the positive of another sentence


def test_order_questions_are_asked_in_both_orders() -> None:
    rows = make_questions("order", PARTS, 0).loc["train"].values.tolist()
    places = []
    for (text, label, before, after), reverse in zip(rows[::2], rows[1::2], strict=True):
        assert label == 1 and reverse == [text, 0, after, before]
        words = text.lower().split()
        assert words.count(before.lower()) == words.count(after.lower()) == 1
        assert words.index(before.lower()) < words.index(after.lower())
        places.append(words.index(before.lower()) / len(words))
    assert 0.15 < np.mean(places) < 0.4  # pairs are not restricted to adjacent or first words


def test_lengths_have_the_bins_of_adi_et_al() -> None:
    counts = 1, 4, 5, 8, 9, 29, 30, 33, 34, 70, 71
    questions = make_questions("length", table([Sentence(" ".join(["w"] * count)) for count in counts]), 0)
    lengths = [*zip(questions["text"].str.split().str.len(), questions["length"], strict=True)]
    assert lengths == [(5, 0), (8, 0), (9, 1), (29, 5), (30, 6), (33, 6), (34, 7), (70, 7)]


def test_top_sequences_are_the_commonest_of_training() -> None:
    unseen = table([Sentence("a", None, None, top) for top in ("unheard", None)], "test")
    questions = make_questions("tss", pd.concat([PARTS.loc[["train"]], unseen]), 0)
    assert questions.loc[["test"]].values.tolist() == [["a", 19]]
    frame = PARTS.loc["train"].assign(label=questions.loc["train", "tss"].tolist())
    assert {*frame["label"]} == {*range(20)}
    counts = frame[frame["label"] < 19].groupby("label")["tss"].agg(["size", "nunique"])
    assert counts["size"].tolist() == frame["tss"].value_counts().tolist()[:19] and (counts["nunique"] == 1).all()


def test_probes_of_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "mlp_probe", partial(trainers.mlp_probe, width=16))
    model, data = Model("random", RandomVectors()), str(tree_folder(tmp_path / "trees"))
    scores = evaluate_probes(model, data=data, probes=["tense"])
    assert 30 < scores["tense.logistic.test"] < 70  # random vectors encode no tense
    past = read_sentences(data)["tense"].astype(float)
    frequent = past["train"].mean() > 0.5
    assert scores["tense.majority.test"] == pytest.approx(100 * np.mean(past["test"] == frequent))
    with pytest.raises(UserError):  # all training examples are of one class
        evaluate_probes(model, data=data, probes=["passive"])
