"""Generated pairs: their number and content, and that a hypothesis alone does not reveal its class."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from data.sources.samples import FILES, MOST, Samples

KINDS: tuple[Any, ...] = tuple(FILES)


@pytest.mark.parametrize("kind", KINDS)
def test_smaller_numbers_give_the_first_pairs(kind: Any) -> None:
    pairs = list(Samples(kind=kind).read())
    assert len(pairs) == MOST and list(Samples(kind=kind, pairs=10).read()) == pairs[:10]


def test_a_hypothesis_does_not_give_its_class_away() -> None:
    source = Samples(kind="nli", pairs=3000, dev_fraction=0.3)
    pairs = list(source.read())
    labels: dict[str, list[object]] = {}
    for pair in pairs:
        labels.setdefault(pair.texts[1], []).append(pair.label)
    assert all(len({*Counter(classes).values()}) == 1 and len({*classes}) == 3 for classes in labels.values())
    in_training = np.array([source.assign_part(pair) == "train" for pair in pairs])
    targets = np.array([pair.label for pair in pairs])
    counts = CountVectorizer().fit_transform(pair.texts[1] for pair in pairs)
    model = LogisticRegression(max_iter=300).fit(counts[in_training], targets[in_training])
    assert model.score(counts[~in_training], targets[~in_training]) < 0.34
