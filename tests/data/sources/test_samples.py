"""Generated pairs: their number and content, and that a hypothesis alone does not reveal its class."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from data.sources.samples import FILES, FOLDER, MOST, Samples
from data.sources.trees import linearised
from tests.data.brackets import delinearised

KINDS: tuple[Any, ...] = tuple(FILES)


def test_the_bundled_files_are_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_smaller_numbers_give_the_first_pairs(kind: Any) -> None:
    pairs = list(Samples(kind=kind).read())
    assert len(pairs) == MOST
    assert list(Samples(kind=kind, pairs=10).read()) == pairs[:10]
    assert len({(pair.texts, pair.label) for pair in pairs}) > 0.9 * MOST


def test_the_fingerprint_depends_on_kind_and_number() -> None:
    fingerprints = [Samples(kind=kind, pairs=pairs).fingerprint for kind in KINDS for pairs in (10, 11)]
    assert len({*fingerprints}) == len(fingerprints)
    assert Samples(kind="fr", pairs=10).fingerprint == fingerprints[0]


def test_french_and_german_translate_the_same_sentences() -> None:
    french, german = Samples(kind="fr", pairs=200), Samples(kind="de", pairs=200)
    assert list(french.texts()) == list(german.texts())
    assert next(french.examples()).texts[1] == "La femme n'aime pas le juge."
    assert next(german.examples()).texts[1] == "Die Frau liebt den Richter nicht."
    assert french.synthetic and french.describe()["synthetic"]


def test_a_tree_has_a_leaf_for_each_word() -> None:
    source = Samples(kind="parse", pairs=500)
    assert source.symbols
    for pair in source.read():
        line = pair.texts[1]
        assert linearised(delinearised(line), tags="own") == line
        assert len([symbol for symbol in line.split() if symbol[0] not in "()"]) == len(pair.texts[0].split())


def test_a_hypothesis_does_not_give_its_class_away() -> None:
    source = Samples(kind="nli", pairs=3000, dev_fraction=0.3)
    pairs = list(source.read())
    labels: dict[str, list[object]] = {}
    for pair in pairs:
        labels.setdefault(pair.texts[1], []).append(pair.label)
    assert all(Counter(found)[0] == Counter(found)[1] == Counter(found)[2] for found in labels.values())
    in_training = np.array([source.assign_part(pair) == "train" for pair in pairs])
    targets = np.array([pair.label for pair in pairs])
    for sentence, most in ((1, 0.34), (0, 0.60)):  # premises (0) cannot but contain hints, such as negation
        counts = CountVectorizer().fit_transform(pair.texts[sentence] for pair in pairs)
        model = LogisticRegression(max_iter=300).fit(counts[in_training], targets[in_training])
        assert model.score(counts[~in_training], targets[~in_training]) < most
