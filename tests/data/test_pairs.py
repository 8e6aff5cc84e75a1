"""Pairs of sources and a target: columns, continuation, split, selection and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import mapped
from data import pairs as module
from data.errors import UserError
from data.pairs import EMPTY, Pair, PairSource, PairStore, pair_hash, prepare_pairs
from data.sources.base import Part, part_of, split_hash
from data.vocabulary import train_word_level
from tests.data.samples import WORDS, tokenizer

TEXTS = [" ".join(WORDS[(i * 7 + j) % len(WORDS)] for j in range(1 + i % 9)) + f" {i // 2}" for i in range(200)]
PAIRS = [Pair((text,), text[::-1]) for text in TEXTS]
ENGLISH = train_word_level(TEXTS, vocab_size=500, min_count=1, max_length=64)
TARGET = train_word_level([text[::-1] for text in TEXTS], vocab_size=400, min_count=2, max_length=64)


class Listed(PairSource):
    name = "listed"

    def __init__(self, pairs: list[Pair], **options: Any) -> None:
        super().__init__(**options)
        self.listed = pairs

    def pairs(self) -> Iterator[Pair]:
        yield from self.listed

    def identity(self) -> Iterator[str]:
        return (repr(pair) for pair in self.listed)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "where": "a test", "licence": None}


class WithClasses(Listed):
    n_sources = 2
    classes = ("no", "yes")


def ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False).input_ids


def open_pairs(cache: Path, pairs: list[Pair] = PAIRS, **options: Any) -> PairStore:
    return prepare_pairs(Listed(pairs, **options), ENGLISH, TARGET, cache=cache)


def test_columns_are_the_texts_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 500)
    seen: list[tuple[int, int | None]] = []
    store = prepare_pairs(Listed(PAIRS), ENGLISH, TARGET, cache=tmp_path, progress=lambda *done: seen.append(done))
    assert len(store) == len(PAIRS) and len(seen) > 5 and seen[-1] == (200, None)
    for i, pair in enumerate(PAIRS):
        assert isinstance(pair.target, str)
        assert [source.tolist() for source in store[i].sources] == [ids(ENGLISH, pair.sources[0])]
        assert store[i].target.tolist() == ids(TARGET, pair.target)
        assert store.source_lengths[i].tolist() == [len(store[i].sources[0])]
        assert store.target_lengths[i] == len(store[i].target)


def test_an_interrupted_store_is_continued_and_equal_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 500)
    monkeypatch.setattr(mapped, "SHARD_WRITES", 2)
    source = Listed([PAIRS[0], Pair(("",), "nothing"), *PAIRS[1:]])
    uninterrupted = prepare_pairs(source, ENGLISH, TARGET, cache=tmp_path / "whole").folder
    seen: list[int] = []

    def interrupt(done: int, total: int | None) -> None:
        if done >= 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_pairs(source, ENGLISH, TARGET, cache=tmp_path / "again", progress=interrupt)
    continued = prepare_pairs(
        source, ENGLISH, TARGET, cache=tmp_path / "again", progress=lambda done, total: seen.append(done)
    )
    assert 80 < seen[0] < 130 and seen[-1] == 201 and continued.skipped == {"without text": 1}
    for path in uninterrupted.iterdir():
        assert (continued.folder / path.name).read_bytes() == path.read_bytes()


def test_classes_are_stored_with_their_pairs(tmp_path: Path) -> None:
    pairs = [Pair((text, f"{text} again"), i % 2) for i, text in enumerate(TEXTS)]
    store = prepare_pairs(WithClasses(pairs), ENGLISH, None, cache=tmp_path)
    assert store.classes == ("no", "yes") and not store.synthetic
    for i in (0, 7, 199):
        first, second = store[i].sources
        assert (first.tolist(), second.tolist()) == tuple(ids(ENGLISH, text) for text in pairs[i].sources)
        assert store[i].target.tolist() == [i % 2]
    assert len(store.select("train").indices) > 0
    for source, target in ((WithClasses(pairs), TARGET), (Listed(PAIRS), None)):
        with pytest.raises(ValueError):
            prepare_pairs(source, ENGLISH, target, cache=tmp_path)


def test_byte_level_texts_get_a_leading_blank(tmp_path: Path) -> None:
    bpe = tokenizer()
    store = prepare_pairs(Listed(PAIRS[:3]), bpe, bpe, cache=tmp_path)
    assert store[1].sources[0].tolist() == bpe(" " + TEXTS[1], add_special_tokens=False).input_ids


def test_parts_follow_first_source_group_and_own_part(tmp_path: Path) -> None:
    groups = [pair._replace(group=f"g {i // 10}") for i, pair in enumerate(PAIRS)]
    parts: list[Part] = ["train", "dev"]
    assigned = [pair._replace(part=parts[i % 2]) for i, pair in enumerate(PAIRS)]
    for number, pairs in enumerate((PAIRS, groups, assigned)):
        store = open_pairs(tmp_path / str(number), pairs, dev_fraction=0.3)
        source = Listed(pairs, dev_fraction=0.3)
        for part in parts:
            chosen = store.select(part).indices.tolist()
            assert chosen == [i for i, pair in enumerate(pairs) if source.part_of(pair) == part]
        texts = list(source.source_texts())
        assert texts == [TEXTS[i] for i in store.select("train").indices]
        assert list(source.target_texts()) == [text[::-1] for text in texts]
    assert pair_hash(PAIRS[3]) == split_hash(None, TEXTS[3]) and pair_hash(groups[3]) == split_hash("g 0", "")
    assert part_of(assigned[3].part, 2**64 - 1, 0.0) == "dev"


def test_one_store_serves_all_dev_fractions(tmp_path: Path) -> None:
    few, many = open_pairs(tmp_path, dev_fraction=0.1), open_pairs(tmp_path, dev_fraction=0.4)
    assert few.folder == many.folder
    assert set(few.select("dev").indices) < set(many.select("dev").indices)


def test_pairs_are_selected_by_lengths_of_source_and_target(tmp_path: Path) -> None:
    store = open_pairs(tmp_path, dev_fraction=0.0)
    store.source_lengths[3], store.target_lengths[[5, 6]] = 0, 0  # the tokenizers have no token for these texts
    chosen = store.select("train")
    assert chosen.indices.tolist() == [i for i in range(len(store)) if i not in (3, 5, 6)]
    assert chosen.left_out == {"too short": 3}


def test_empty_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [Pair(("  one\n two ",), "three"), Pair((" ",), "text"), Pair(("text",), "\t")]
    source = Listed(pairs)
    assert list(source.read()) == [Pair(("one two",), "three")] and source.skipped == {EMPTY: 2}
    store = open_pairs(tmp_path, pairs)
    assert len(store) == 1 and store.skipped == {EMPTY: 2}
    assert open_pairs(tmp_path, pairs).skipped == {EMPTY: 2}  # stored, as the texts are not read again
    with pytest.raises(UserError):
        open_pairs(tmp_path, pairs[1:])
    with pytest.raises(UserError):
        open_pairs(tmp_path, [])


def test_texts_and_tokenizers_are_in_the_fingerprint(tmp_path: Path) -> None:
    stores = [
        open_pairs(tmp_path),
        open_pairs(tmp_path, PAIRS[:-1]),
        prepare_pairs(Listed(PAIRS), TARGET, TARGET, cache=tmp_path),
        prepare_pairs(Listed(PAIRS), ENGLISH, ENGLISH, cache=tmp_path),
    ]
    assert len({store.fingerprint for store in stores}) == 4
    assert Listed(PAIRS).texts_key() != Listed(PAIRS, dev_fraction=0.1).texts_key()


def test_a_failure_leaves_no_files(tmp_path: Path) -> None:
    class Failing(Listed):
        def pairs(self) -> Iterator[Pair]:
            yield PAIRS[0]
            raise PermissionError(13, "Permission denied", "/texts/two.txt")

    with pytest.raises(PermissionError):
        prepare_pairs(Failing([]), ENGLISH, TARGET, cache=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_pairs(tmp_path, dev_fraction=0.0)
    with pytest.raises(UserError):
        store.select("dev")
    monkeypatch.setattr(Listed, "synthetic", True)
    with pytest.raises(UserError):
        open_pairs(tmp_path, PAIRS[1:], dev_fraction=0.0).select("dev")
    store.source_lengths[:] = 0
    with pytest.raises(UserError):
        store.select("train")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=8), st.floats(0, 0.99))
def test_every_pair_with_text_is_in_one_part(texts: list[tuple[str, str]], dev_fraction: float) -> None:
    source = Listed([Pair((one,), other) for one, other in texts], dev_fraction=dev_fraction)
    read = list(source.read())
    assert len(read) + source.skipped[EMPTY] == len(texts)
    assert len(list(source.source_texts())) == sum(source.part_of(pair) == "train" for pair in read)
