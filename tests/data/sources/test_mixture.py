"""A mixture of corpora: weights, held-out shares, names in errors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from data.errors import UserError
from data.sources.base import threshold, weight_hash
from data.sources.mixture import Mixture
from data.sources.pydocs import Pydocs
from data.sources.text import Text

COUNT = 400


@pytest.fixture
def books(tmp_path: Path) -> str:
    path = tmp_path / "books.jsonl"
    rows = [{"id": f"book{n // 4}/{n}", "text": f"chapter {n}"} for n in range(COUNT)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    path = tmp_path / "notes.txt"
    path.write_text("".join(f"note {n}\n" for n in range(COUNT)))
    return str(path)


def counted(source: Mixture) -> dict[str, Counter[str]]:
    """Counts how often each text is read, by part."""
    found: dict[str, Counter[str]] = {"train": Counter(), "dev": Counter()}
    for example in source.read():
        assert example.part is not None
        found[example.part][example.texts[0]] += example.repeats
    return found


def test_each_corpus_is_held_out_as_by_itself(books: str, notes: str) -> None:
    settings: dict[str, dict[str, Any]] = {
        "books": {"path": books, "group_field": "id"},
        "notes": {"path": notes, "dev_fraction": 0.3},
    }
    found = counted(Mixture(corpora=settings, dev_fraction=0.1))
    expected = set[str]()
    for source in (Text(path=books, group_field="id", dev_fraction=0.1), Text(path=notes, dev_fraction=0.3)):
        expected |= {example.texts[0] for example in source.read() if source.assign_part(example) == "dev"}
    assert set(found["dev"]) == expected and len(expected) > 100
    assert len(found["train"]) + len(found["dev"]) == 2 * COUNT
    by_book = {n // 4 for n in range(COUNT) if f"chapter {n}" in found["dev"]}
    assert all(f"chapter {n}" in found["dev"] for n in range(COUNT) if n // 4 in by_book)  # books are not divided


@pytest.mark.parametrize("weight", [0.5, 1, 2, 2.5])
def test_weight_is_the_number_of_repetitions_in_training(books: str, notes: str, weight: float) -> None:
    found = counted(Mixture(corpora={"books": {"path": books}, "notes": {"path": notes, "weight": weight}}))
    counts = {text: count for text, count in found["train"].items() if text.startswith("note")}
    least = int(weight)
    assert set(counts.values()) <= {least, least + 1} - {0}
    train = [f"note {n}" for n in range(COUNT) if f"note {n}" not in found["dev"]]
    repeated_once_more = {text for text in train if weight_hash(text) < threshold(weight - least)}
    assert {text for text, count in counts.items() if count == least + 1} == repeated_once_more
    assert sum(counts.values()) == pytest.approx(weight * len(train), abs=25)
    assert all(count == 1 for text, count in found["train"].items() if text.startswith("chapter"))
    assert set(found["dev"].values()) == {1}


def test_a_corpus_of_a_mixture_has_its_kind_and_defaults(notes: str) -> None:
    mixed = Mixture(
        corpora={"docs": {"kind": "pydocs", "weight": 2}, "notes": {"path": notes, "dev_fraction": 0.1}},
        dev_fraction=0.3,
    )
    (docs, twice), (text, once) = mixed.sources.values()
    assert isinstance(docs, Pydocs) and (twice, docs.dev_fraction) == (2, 0.3)
    assert isinstance(text, Text) and (once, text.dev_fraction) == (1, 0.1)


def test_fingerprint_depends_on_weight_text_and_share(books: str, notes: str) -> None:
    def fingerprint(**settings: Any) -> str:
        return Mixture(corpora={"books": {"path": books}, "notes": {"path": notes} | settings}).fingerprint

    assert fingerprint() == fingerprint() == fingerprint(weight=1.0)
    assert len({fingerprint(), fingerprint(weight=2), fingerprint(dev_fraction=0.2), fingerprint(path=books)}) == 4


def test_hub_corpora_are_pinned(notes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Text, "commit", "abc")
    mixed = Mixture(corpora={"news": {"kind": "hub", "dataset": "some/news"}, "notes": {"path": notes}})
    assert mixed.pinned() == {
        "corpora": {"news": {"kind": "hub", "dataset": "some/news", "revision": "abc"}, "notes": {"path": notes}}
    }
    assert Text(path=notes).pinned() == {}


def test_the_card_names_corpora_and_weights(books: str, notes: str) -> None:
    described = Mixture(corpora={"a": {"path": books}, "b": {"path": notes, "weight": 2}}).describe()
    assert described["where"] == f"a ({books}); b ({notes}, weight 2)"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("books.txt", ""),
        ({}, ".path"),
        ({"kind": "txt"}, ""),
        ({"path": "x", "weight": "a"}, ""),
        ({"path": "x", "feild": "t"}, ""),
        ({"path": "x", "fraction": 0.5}, ""),
        ({"path": "/nowhere/x.txt"}, ".path"),
        ({"path": 3}, ""),
        ({"kind": "nltk", "corpus": "gutenburg"}, ".corpus"),
        ({"kind": "pydocs", "dev_fraction": 1.0}, ""),
    ],
    ids=str,
)
def test_errors_name_the_corpus(settings: Any, key: str) -> None:
    with pytest.raises(UserError) as error:
        Mixture(corpora={"a": settings})
    assert error.value.key == f"corpus.corpora.a{key}"
    with pytest.raises(UserError) as error:
        Mixture(corpora={})
    assert error.value.key == "corpus.corpora"
