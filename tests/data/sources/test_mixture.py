"""A mixture of corpora: weights, held-out shares, names in errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data.errors import UserError
from data.sources.base import text_hash, threshold
from data.sources.mixture import Mixture
from data.sources.text import Text
from tests.data.sources.corpora import mixed_corpora, write_corpora


def count_texts(source: Mixture) -> dict[str, Counter[str]]:
    """Counts how often each text is read, by part."""
    counts: dict[str, Counter[str]] = {"train": Counter(), "dev": Counter()}
    for example in source.read():
        assert example.part is not None
        counts[example.part][example.texts[0]] += example.repeats
    return counts


def test_each_corpus_is_held_out_as_by_itself(tmp_path: Path) -> None:
    settings = mixed_corpora(write_corpora(tmp_path))
    counts = count_texts(Mixture(corpora=settings, dev_fraction=0.1))
    settings["books"].pop("weight")
    dev = set[str]()
    for options in settings.values():
        source = Text(**{"dev_fraction": 0.1, **options})
        dev |= {example.texts[0] for example in source.read() if source.assign_part(example) == "dev"}
    assert set(counts["dev"]) == dev and len(dev) > 100
    assert len(counts["train"]) + len(counts["dev"]) == 800


@pytest.mark.parametrize("weight", [0.5, 1, 2.5])
def test_weight_is_the_number_of_repetitions_in_training(tmp_path: Path, weight: float) -> None:
    paths = write_corpora(tmp_path)
    corpora = {"books": {"path": paths["books"]}, "notes": {"path": paths["notes"], "weight": weight}}
    counts = count_texts(Mixture(corpora=corpora))
    train = [f"note {n}" for n in range(400) if f"note {n}" not in counts["dev"]]
    repeats = [int(weight) + (text_hash(text, b"weight") < threshold(weight % 1)) for text in train]
    assert [counts["train"][text] for text in train] == repeats
    assert all(count == 1 for text, count in counts["train"].items() if text.startswith("Chapter"))
    assert set(counts["dev"].values()) == {1}


def test_hub_corpora_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Text, "commit", "abc")
    news, notes = {"kind": "hub", "dataset": "some/news"}, {"path": __file__}
    mixture = Mixture(corpora={"news": news, "notes": notes})
    assert mixture.pinned_settings() == {"corpora": {"news": news | {"revision": "abc"}, "notes": notes}}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, ".path"),
        ({"kind": "txt"}, ""),
        ({"kind": "nltk", "corpus": "gutenburg"}, ".corpus"),
        ({"kind": "pydocs", "weight": -1}, ".weight"),
    ],
    ids=str,
)
def test_errors_name_the_corpus(settings: Any, key: str) -> None:
    with pytest.raises(UserError) as error:
        Mixture(corpora={"a": settings})
    assert error.value.key == f"corpus.corpora.a{key}"
