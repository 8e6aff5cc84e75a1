"""Token tables of documents, sentences and pairs: contents, building, selection, counts."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data import store as module
from data.errors import UserError
from data.sentences import Sentences
from data.sources.base import Example, Part, choose_part, normalise, split_hash
from data.store import TokenTable, duplicates, prepare
from data.tokenizer import train_words
from tests.data.samples import WORDS, Document, Listed, document, tokenizer

BPE = tokenizer()
PARTS: tuple[Part, ...] = ("train", "dev")
DOCUMENTS = [
    Document(document(i, words=5 + i % 60), group=f"book {i // 3}" if i % 2 else None) for i in range(200)
]
TEXTS = [example.texts[0] for example in DOCUMENTS]
EVERY_SENTENCE = Sentences(min_words=1, max_words=1000, unique=False)


def prose(i: int) -> list[str]:
    """Returns five unique sentences, and one that every third document has: short, long or neither."""
    unique = [f"{document(5 * i + j, 6 + j)}." for j in range(5)]
    extra = ("This sentence comes again and again.", "Oh no.", " ".join(["Long", *WORDS * 6]) + ".")[i % 3]
    return [*unique[:2], extra, *unique[2:]]


SENTENCE_LISTS = [prose(i) for i in range(120)]
PROSE = [Document(" ".join(texts), f"book {i // 3}" if i % 2 else None) for i, texts in enumerate(SENTENCE_LISTS)]
SENTENCES = [text for texts in SENTENCE_LISTS for text in texts]
WORD_TOKENIZER = train_words(SENTENCES, vocab_size=2000, min_count=1)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def table(cache: Path) -> TokenTable:
    return prepare(Listed(DOCUMENTS, dev_fraction=0.2), BPE, cache=cache)


def sentence_table(cache: Path, rules: Sentences = EVERY_SENTENCE) -> TokenTable:
    return prepare(Listed(PROSE, dev_fraction=0.3), WORD_TOKENIZER, cache=cache, sentences=rules)


def ids(text: str, tokenizer: PreTrainedTokenizerFast = BPE) -> list[int]:
    blank = " " if tokenizer is BPE else ""
    return tokenizer(blank + normalise(text), add_special_tokens=False).input_ids


# Contents


def test_a_table_holds_the_ids_of_the_tokenizer(table: TokenTable) -> None:
    assert table.lengths.shape == (200, 1) and set(table.labels) == {-1}
    assert [table[i].tolist() for i in range(len(table))] == list(map(ids, TEXTS))
    assert table.lengths[:, 0].tolist() == [len(ids(text)) for text in TEXTS]
    assert table.documents.tolist() == list(range(200))


def test_blank_lines_end_a_sentence_and_splitting_precedes_lower_casing(tmp_path: Path) -> None:
    text = "A Heading\r\n \nThe cat\nsat. It slept.\n\n\n"
    words = train_words(["a heading", "the cat sat.", "it slept."], vocab_size=50, min_count=1)
    source = Listed([Document(text, part="dev")], lowercase=True)
    table = prepare(source, words, cache=tmp_path, sentences=EVERY_SENTENCE)
    assert [words.decode(table[i]) for i in range(len(table))] == ["a heading", "the cat sat .", "it slept ."]
    assert table.held_out_texts() == ["a heading the cat sat. it slept."]


def test_pairs_have_two_columns_and_perhaps_a_label(tmp_path: Path) -> None:
    pairs = [Example((text, text[::-1]), i % 3) for i, text in enumerate(TEXTS)]
    target = train_words([text[::-1] for text in TEXTS], vocab_size=400, min_count=2)
    table = prepare(Listed(pairs), BPE, second=target, cache=tmp_path)
    for i in (0, 7, 199):
        assert table[i].first.tolist() == ids(TEXTS[i]) and table[i].label == i % 3
        assert table[i].second.tolist() == ids(TEXTS[i][::-1], target)
        assert table.lengths[i].tolist() == [len(table[i].first), len(table[i].second)]
    assert prepare(Listed([Example((text, text)) for text in TEXTS]), BPE, cache=tmp_path)[3].label == -1


# Building


def test_a_killed_build_is_continued_and_equal_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CHUNK_CHARACTERS", 500), ("SAVE_EVERY", 30), ("HELD_OUT_DOCUMENTS", 20)):
        monkeypatch.setattr(module, name, value)
    source = Listed([Document(""), *DOCUMENTS[:100], Document(" "), *DOCUMENTS[100:]])
    pairs = Listed([Example((text, text[::-1])) for text in ["", *TEXTS]])
    cases: list[tuple[Listed, Sentences | None]] = [(source, None), (source, EVERY_SENTENCE), (pairs, None)]
    for number, (examples, rules) in enumerate(cases):
        steps = list[int]()

        def kill(done: int) -> None:
            if done >= 100:
                raise KeyboardInterrupt

        whole = prepare(examples, BPE, cache=tmp_path / f"whole {number}", sentences=rules)
        cache = tmp_path / f"killed {number}"
        with pytest.raises(KeyboardInterrupt):
            prepare(examples, BPE, cache=cache, sentences=rules, progress=kill)
        table = prepare(examples, BPE, cache=cache, sentences=rules, progress=steps.append)
        assert 30 < steps[0] <= 110 and steps[-1] >= 200
        names = {path.name for path in whole.folder.iterdir()}
        assert names == {path.name for path in table.folder.iterdir()}
        assert all((whole.folder / name).read_bytes() == (table.folder / name).read_bytes() for name in names)


def test_a_table_is_built_once(table: TokenTable, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BPE("a call that cuts and pads", truncation=True, max_length=4, padding="max_length")
    monkeypatch.setattr(module, "_build", None)
    again = prepare(Listed(DOCUMENTS, fraction=0.5, dev_fraction=0.4), BPE, cache=cache)
    assert again.folder == table.folder
    assert len(again.select("dev").indices) > len(table.select("dev").indices)


def test_a_source_without_text_and_a_damaged_table_are_refused(tmp_path: Path, table: TokenTable) -> None:
    with pytest.raises(UserError):
        prepare(Listed([Document(""), Document(" \n\n ")]), BPE, cache=tmp_path, sentences=Sentences())
    shutil.copytree(table.folder, tmp_path / "copy")
    (tmp_path / "copy" / "units.bin").write_bytes(b"half")
    with pytest.raises(UserError) as error:
        TokenTable(tmp_path / "copy")
    assert error.value.key == str(tmp_path / "copy")


# Selection


def test_parts_follow_the_split_hash_and_keep_groups_together(table: TokenTable) -> None:
    train, dev = table.select("train"), table.select("dev")
    assert sorted([*train.indices, *dev.indices]) == list(range(200))
    hashes = [split_hash(document.group, text) for document, text in zip(DOCUMENTS, TEXTS, strict=True)]
    assert all(choose_part(None, hashes[i], 0.2) == "dev" for i in dev.indices)
    assert {DOCUMENTS[i].group for i in train.indices} & {DOCUMENTS[i].group for i in dev.indices} == {None}


@pytest.mark.parametrize("rules", [None, Sentences()], ids=["documents", "sentences"])
def test_fractions_are_nested_and_do_not_change_dev(
    table: TokenTable, cache: Path, rules: Sentences | None
) -> None:
    whole = table if rules is None else sentence_table(cache, rules)
    shares = [replace(whole, fraction=share) for share in (0.2, 0.5, 1.0)]
    small, middle, large = (set(share.select("train").indices.tolist()) for share in shares)
    assert small < middle < large and 0.1 < len(small) / len(large) < 0.3
    assert shares[0].select("dev").indices.tolist() == whole.select("dev").indices.tolist()


def test_length_rules_count_words_and_share_one_table(cache: Path) -> None:
    words = np.array([len(text.split()) for text in SENTENCES])
    for rules in (Sentences(min_words=3, max_words=64, unique=False), Sentences(min_words=9, max_words=9)):
        table = sentence_table(cache, rules)
        assert table.folder == sentence_table(cache).folder
        for part in PARTS:
            (indices, left_out), units = table.select(part), table.select(part, rules=EVERY_SENTENCE).indices
            assert {*words[indices]} <= {*range(rules.min_words, rules.max_words + 1)}
            assert left_out["too short"] == (words[units] < rules.min_words).sum()
            assert left_out["too long"] == (words[units] > rules.max_words).sum()
            assert len(indices) + sum(left_out.values()) == len(units)


def test_a_repeated_document_is_taken_once_and_a_repeated_pair_each_time(tmp_path: Path) -> None:
    parts: list[Part] = ["train", "train", "dev", "dev", "dev"]
    texts = ["a text", "a  text", "a text", "other", "other"]
    documents = [Document(text, part=part) for text, part in zip(texts, parts, strict=True)]
    table = prepare(Listed(documents), BPE, cache=tmp_path)
    train, dev = (table.select(part) for part in PARTS)
    assert train == ([0], {"repeated": 1}) and dev == ([3], {"repeated": 2})
    pairs = [Example((text, text), part=part) for text, part in zip(texts, parts, strict=True)]
    assert len(prepare(Listed(pairs), BPE, cache=tmp_path).select("dev").indices) == 3


def test_repeats_are_stored_once_and_selected_each_time(tmp_path: Path) -> None:
    examples = [example._replace(repeats=1 + i % 3) for i, example in enumerate(DOCUMENTS)]
    table = prepare(Listed(examples, dev_fraction=0.3), BPE, cache=tmp_path)
    train, dev = (table.select(part).indices for part in PARTS)
    assert len(table) == 200 and Counter(train.tolist()) == {i: 1 + i % 3 for i in set(train.tolist())}
    assert set(Counter(dev.tolist()).values()) == {1} and (np.diff(train) >= 0).all()


def test_units_can_need_two_different_tokens_or_a_number_in_each_text(tmp_path: Path) -> None:
    words = train_words(["cat dog"], vocab_size=10, min_count=1)
    documents = [Document(text) for text in ("cat cat cat", "cat cat dog", "dog", "cat dog cat")]
    table = prepare(Listed(documents, dev_fraction=0.0), words, cache=tmp_path)
    train = table.select("train", different_tokens=True)
    assert train.indices.tolist() == [1, 3] and train.left_out == {"of one token": 2}
    pairs = [Example(texts) for texts in (("cat cat", "cat"), ("cat", "cat cat"), ("cat cat", "cat cat"))]
    train = prepare(Listed(pairs, dev_fraction=0.0), words, cache=tmp_path).select("train", min_tokens=2)
    assert train.indices.tolist() == [2] and train.left_out == {"too short": 2}


UNITS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["usable", "reserved", ""])))


@given(UNITS, st.booleans())
def test_duplicates_equal_a_naive_loop(units: list[tuple[int, int, str]], with_others: bool) -> None:
    texts, order = (np.array([unit[i] for unit in units], dtype=np.uint64) for i in (0, 1))
    usable, reserved = (
        np.array([unit[2] == name for unit in units], dtype=bool) for name in ("usable", "reserved")
    )
    reserved = reserved if with_others else usable
    repeated = []
    for i, (text, _, kind) in enumerate(units):
        others = {unit[0] for unit in units if unit[2] == "reserved"} if with_others else set()
        first = min((unit[1], j) for j, unit in enumerate(units) if unit[0] == text and unit[2] == kind)
        repeated.append(kind == "usable" and (text in others or first[1] != i))
    assert duplicates(texts, order, usable, reserved).tolist() == repeated


# Counts and texts


@pytest.mark.parametrize(("most", "limit"), [(None, 10**9), (4, 10**9), (None, 7)])
def test_token_counts_equal_a_naive_loop(
    table: TokenTable, monkeypatch: pytest.MonkeyPatch, most: int | None, limit: int
) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", limit)
    indices = np.arange(3, 190, 2)
    sample = indices if limit > 100 else indices[np.linspace(0, len(indices) - 1, limit).astype(int)]
    counts = Counter(token for i in sample for token in ids(TEXTS[i])[:most])
    assert table.token_counts(indices, most=most).tolist() == [counts[token] for token in range(320)]
