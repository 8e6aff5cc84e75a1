"""Token tables of documents, sentences and pairs: contents, building, selection, counts."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import nltk.data
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data import store as module
from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences
from data.sources.base import Example, Part, normalise, part_of, split_hash
from data.store import Selection, TokenTable, duplicates, prepare
from data.tokenizer import train_bpe, train_words
from tests.data.samples import WORDS, Document, Listed, document, tokenizer
from tests.real_data import suite_data

BPE = tokenizer()
PARTS: tuple[Part, ...] = ("train", "dev")
DOCUMENTS = [
    Document(document(i, words=5 + i % 60), group=f"book {i // 3}" if i % 2 else None) for i in range(200)
]
TEXTS = [example.texts[0] for example in DOCUMENTS]
EVERY_SENTENCE = Sentences(min_words=1, max_words=1000, unique=False)


def sentence(i: int) -> str:
    """Returns a sentence of 8 to 15 words, different for each ``i``."""
    chosen = [WORDS[j] for j in generator(9, i).integers(len(WORDS), size=6 + i % 8)]
    return " ".join(["Sentence", str(i), *chosen]) + "."


def prose(i: int) -> list[str]:
    """Returns five unique sentences, and one that every third document has: short, long or neither."""
    unique = [sentence(5 * i + j) for j in range(5)]
    extra = ("This sentence comes again and again.", "Oh no.", " ".join(["Long", *WORDS * 6]) + ".")[i % 3]
    return [*unique[:2], extra, *unique[2:]]


SENTENCE_LISTS = [prose(i) for i in range(120)]
PROSE = [Document(" ".join(texts), f"book {i // 3}" if i % 2 else None) for i, texts in enumerate(SENTENCE_LISTS)]
SENTENCES = [text for texts in SENTENCE_LISTS for text in texts]
WORD_TOKENIZER = train_words(SENTENCES, vocab_size=2000, min_count=1, max_length=64)


@pytest.fixture(autouse=True)
def no_nltk_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])


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


def with_fraction(table: TokenTable, fraction: float) -> TokenTable:
    return TokenTable(table.folder, fraction=fraction, dev_fraction=table.dev_fraction, sentences=table.sentences)


def record(seen: list[tuple[int, int | None]], done: int, total: int | None) -> None:
    seen.append((done, total))


def total(selection: Selection) -> int:
    return len(selection.indices) + sum(selection.left_out.values())


# Contents


def test_a_table_holds_the_ids_of_the_tokenizer(table: TokenTable) -> None:
    assert len(table) == 200 and table.vocab_size == 320 and table.lengths.shape == (200, 1)
    for i, text in enumerate(TEXTS):
        assert table[i].tolist() == ids(text) and table.lengths[i, 0] == len(table[i])
    assert table.documents.tolist() == list(range(200)) and set(table.labels) == {-1}
    assert table[0].dtype == np.uint16 and not table[0].flags.writeable


def test_white_space_and_case_are_normalised_and_empty_documents_left_out(tmp_path: Path) -> None:
    documents = [Document(" The\n\n MODEL\t learns "), Document(" \n "), Document("")]
    table = prepare(Listed(documents, lowercase=True), BPE, cache=tmp_path)
    assert [table[i].tolist() for i in range(len(table))] == [ids("the model learns")]
    assert sum(table.skipped.values()) == 2
    assert sum(prepare(Listed(documents, lowercase=True), BPE, cache=tmp_path).skipped.values()) == 2


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    table = prepare(Listed([Document("learns <s>")]), BPE, cache=tmp_path)
    assert table[0].tolist() == BPE(" learns <s>", add_special_tokens=False, split_special_tokens=True).input_ids
    assert not set(table[0].tolist()) & set(BPE.all_special_ids)


def test_units_are_sentences_in_their_order(cache: Path) -> None:
    table = sentence_table(cache)
    assert [table[i].tolist() for i in range(len(table))] == [ids(text, WORD_TOKENIZER) for text in SENTENCES]
    assert table.documents.tolist() == [i for i, texts in enumerate(SENTENCE_LISTS) for _ in texts]


def test_blank_lines_end_a_sentence_and_splitting_precedes_lower_casing(tmp_path: Path) -> None:
    text = "A Heading\r\n \nThe cat\nsat. It slept.\n\n\n"
    words = train_words(["a heading", "the cat sat.", "it slept."], vocab_size=50, min_count=1, max_length=8)
    source = Listed([Document(text, part="dev")], lowercase=True)
    table = prepare(source, words, cache=tmp_path, sentences=EVERY_SENTENCE)
    assert [words.decode(table[i]) for i in range(len(table))] == ["a heading", "the cat sat .", "it slept ."]
    assert table.held_out_texts() == ["a heading the cat sat. it slept."]


def test_pairs_have_two_columns_and_perhaps_a_label(tmp_path: Path) -> None:
    pairs = [Example((text, text[::-1]), i % 3) for i, text in enumerate(TEXTS)]
    target = train_words([text[::-1] for text in TEXTS], vocab_size=400, min_count=2, max_length=64)
    table = prepare(Listed(pairs), BPE, second=target, cache=tmp_path)
    for i in (0, 7, 199):
        assert table[i].first.tolist() == ids(TEXTS[i]) and table[i].label == i % 3
        assert table[i].second.tolist() == ids(TEXTS[i][::-1], target)
        assert table.lengths[i].tolist() == [len(table[i].first), len(table[i].second)]
    plain = prepare(Listed([Example((text, text)) for text in TEXTS]), BPE, cache=tmp_path)
    assert plain[3].label is None and plain[3].first.tolist() == plain[3].second.tolist() == ids(TEXTS[3])


# Building


def test_a_killed_build_is_continued_and_equal_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CHUNK_CHARACTERS", 500), ("PART_UNITS", 30), ("HELD_OUT_DOCUMENTS", 20)):
        monkeypatch.setattr(module, name, value)
    source = Listed([Document(""), *DOCUMENTS[:100], Document(" "), *DOCUMENTS[100:]])
    pairs = Listed([Example((text, text[::-1])) for text in ["", *TEXTS]])
    cases: list[tuple[Listed, Sentences | None]] = [(source, None), (source, EVERY_SENTENCE), (pairs, None)]
    for number, (given_source, rules) in enumerate(cases):
        seen: list[tuple[int, int | None]] = []

        def kill(done: int, total: int | None) -> None:
            if done >= 100:
                raise KeyboardInterrupt

        whole = prepare(given_source, BPE, cache=tmp_path / f"whole {number}", sentences=rules)
        cache = tmp_path / f"killed {number}"
        with pytest.raises(KeyboardInterrupt):
            prepare(given_source, BPE, cache=cache, sentences=rules, progress=kill)
        table = prepare(given_source, BPE, cache=cache, sentences=rules, progress=partial(record, seen))
        assert 31 < seen[0][0] <= 110 and seen[-1][0] >= 200
        names = {path.name for path in whole.folder.iterdir()}
        assert names == {path.name for path in table.folder.iterdir()}
        assert all((whole.folder / name).read_bytes() == (table.folder / name).read_bytes() for name in names)


def test_a_table_is_built_once(table: TokenTable, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BPE("a call that cuts and pads", truncation=True, max_length=4, padding="max_length")
    monkeypatch.setattr(module, "_build", None)
    again = prepare(Listed(DOCUMENTS, fraction=0.5, dev_fraction=0.4), BPE, cache=cache)
    assert again.folder == table.folder
    assert len(again.select("dev").indices) > len(table.select("dev").indices)


def test_text_tokenizers_case_and_unit_are_in_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, other = DOCUMENTS[:3], train_bpe(TEXTS, vocab_size=300)
    pairs = Listed([Example(("one", "two"))])
    tables = [
        prepare(Listed(few), BPE, cache=tmp_path),
        prepare(Listed(few[:2]), BPE, cache=tmp_path),
        prepare(Listed(few, lowercase=True), BPE, cache=tmp_path),
        prepare(Listed(few), other, cache=tmp_path),
        prepare(Listed(few), BPE, cache=tmp_path, sentences=Sentences()),
        prepare(pairs, BPE, cache=tmp_path),
        prepare(pairs, BPE, second=other, cache=tmp_path),
    ]
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    tables.append(prepare(Listed(few), BPE, cache=tmp_path, sentences=Sentences()))
    assert len({table.fingerprint for table in tables}) == len(tables)


def test_a_source_without_text_and_a_damaged_table_are_refused(tmp_path: Path, table: TokenTable) -> None:
    for rules in (None, Sentences()):
        with pytest.raises(UserError):
            prepare(Listed([Document(""), Document(" \n\n ")]), BPE, cache=tmp_path, sentences=rules)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("meta.json", "ids.0.bin", "units.bin"):
        for path in table.folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes()[: -3 if path.name == name else None])
        with pytest.raises((UserError, ValueError)):
            TokenTable(copy)[199]


def test_a_copy_for_a_worker_reads_the_same_files(table: TokenTable, cache: Path) -> None:
    for original in (table, sentence_table(cache, Sentences(max_words=9))):
        copy = pickle.loads(payload := pickle.dumps(original))
        assert len(payload) < 1000 and copy[7].tolist() == original[7].tolist()
        assert copy.select("dev").indices.tolist() == original.select("dev").indices.tolist()


# Selection


def test_parts_follow_the_split_hash_and_keep_groups_together(table: TokenTable) -> None:
    train, dev = table.select("train"), table.select("dev")
    assert sorted([*train.indices, *dev.indices]) == list(range(200))
    for i in dev.indices:
        assert part_of(None, split_hash(DOCUMENTS[i].group, normalise(TEXTS[i])), 0.2) == "dev"
    groups = [{DOCUMENTS[i].group for i in part.indices if DOCUMENTS[i].group} for part in (train, dev)]
    assert groups[0] and groups[1] and not groups[0] & groups[1]


def test_parts_of_the_source_come_first(tmp_path: Path) -> None:
    examples = [example._replace(part=(None, *PARTS)[i % 3]) for i, example in enumerate(DOCUMENTS)]
    source = Listed(examples, dev_fraction=0.3)
    table = prepare(source, BPE, cache=tmp_path)
    for part in PARTS:
        expected = [i for i, example in enumerate(source.read()) if source.assign_part(example) == part]
        assert table.select(part).indices.tolist() == expected


@pytest.mark.parametrize("rules", [None, Sentences()], ids=["documents", "sentences"])
def test_fractions_are_nested_and_do_not_change_dev(
    table: TokenTable, cache: Path, rules: Sentences | None
) -> None:
    whole = table if rules is None else sentence_table(cache, rules)
    sets = [set(with_fraction(whole, share).select("train").indices.tolist()) for share in (0.2, 0.5, 1.0)]
    assert sets[0] < sets[1] < sets[2] and 0.1 < len(sets[0]) / len(sets[2]) < 0.3
    assert with_fraction(whole, 0.1).select("dev").indices.tolist() == whole.select("dev").indices.tolist()


def test_the_same_documents_are_held_out_by_both_units(cache: Path) -> None:
    sentences = sentence_table(cache)
    documents = prepare(Listed(PROSE, dev_fraction=0.3), WORD_TOKENIZER, cache=cache)
    for part, fraction in (("train", 1.0), ("train", 0.4), ("dev", 1.0)):
        chosen, expected = (with_fraction(each, fraction).select(part).indices for each in (sentences, documents))  # type: ignore[arg-type]
        assert np.unique(sentences.documents[chosen]).tolist() == expected.tolist()
    assert sentences.held_out_texts() == documents.held_out_texts()


def test_too_short_documents_are_counted(table: TokenTable) -> None:
    limit = int(np.median(table.lengths))
    part = table.select("train", min_tokens=limit)
    assert (table.lengths[part.indices] >= limit).all()
    assert part.left_out == {"too short": len(table.select("train").indices) - len(part.indices)}


def test_a_pair_needs_tokens_in_both_texts(tmp_path: Path) -> None:
    words = train_words(["cat cat"], vocab_size=10, min_count=1, max_length=8)
    pairs = [Example(texts) for texts in (("cat cat", "cat"), ("cat", "cat cat"), ("cat cat", "cat cat"))]
    selected = prepare(Listed(pairs, dev_fraction=0.0), words, cache=tmp_path).select("train", min_tokens=2)
    assert selected.indices.tolist() == [2] and selected.left_out == {"too short": 2}


def test_length_rules_count_words_and_share_one_table(cache: Path) -> None:
    words = np.array([len(text.split()) for text in SENTENCES])
    for rules in (Sentences(min_words=3, max_words=64, unique=False), Sentences(min_words=9, max_words=9)):
        table = sentence_table(cache, rules)
        assert table.folder == sentence_table(cache).folder
        for part in PARTS:
            chosen, everything = table.select(part), table.select(part, rules=EVERY_SENTENCE)
            counts = words[everything.indices]
            assert ((words[chosen.indices] >= rules.min_words) & (words[chosen.indices] <= rules.max_words)).all()
            assert chosen.left_out["too short"] == (counts < rules.min_words).sum()
            assert chosen.left_out["too long"] == (counts > rules.max_words).sum()
            assert total(chosen) == total(everything) == len(everything.indices)


def test_a_sentence_is_taken_once_and_never_in_both_parts(cache: Path) -> None:
    table, repeated = sentence_table(cache, Sentences()), SENTENCE_LISTS[0][2]
    train, dev = ({SENTENCES[i] for i in table.select(part).indices} for part in PARTS)
    assert not train & dev
    for part, taken, texts in zip(PARTS, (1, 0), (train, dev), strict=True):
        chosen, everything = table.select(part), table.select(part, rules=EVERY_SENTENCE)
        assert len(texts) == len(chosen.indices) and (repeated in texts) == bool(taken)
        assert chosen.left_out["repeated"] == [SENTENCES[i] for i in everything.indices].count(repeated) - taken


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


def test_units_of_one_repeated_token_can_be_left_out(tmp_path: Path) -> None:
    documents = [Document(text) for text in ("cat cat cat", "cat cat dog", "dog", "cat dog cat")]
    words = train_words(["cat dog"], vocab_size=10, min_count=1, max_length=8)
    for rules in (None, Sentences(split=False, min_words=1)):
        table = prepare(Listed(documents, dev_fraction=0.0), words, cache=tmp_path, sentences=rules)
        chosen = table.select("train", different_tokens=True)
        assert chosen.indices.tolist() == [1, 3] and chosen.left_out == {"of one token": 2}


def test_a_part_without_a_usable_unit_is_refused(table: TokenTable, cache: Path) -> None:
    cases: list[tuple[TokenTable, dict[str, Any]]] = [
        (table, {"min_tokens": 5000}),
        (with_fraction(table, 1e-9), {}),
        (TokenTable(table.folder, dev_fraction=0.0), {"part": "dev"}),
        (sentence_table(cache, Sentences(min_words=900, max_words=1000)), {}),
    ]
    for refused, options in cases:
        with pytest.raises(UserError) as error:
            refused.select(**{"part": "train", **options})
        assert error.value.key == "corpus"


UNITS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["usable", "reserved", ""])))


@given(UNITS, st.booleans())
def test_duplicates_equal_a_naive_loop(units: list[tuple[int, int, str]], with_others: bool) -> None:
    texts, order = (np.array([unit[i] for unit in units], dtype=np.uint64) for i in (0, 1))
    usable, reserved = (
        np.array([unit[2] == name for unit in units], dtype=bool) for name in ("usable", "reserved")
    )
    expected = []
    for i, (text, _, kind) in enumerate(units):
        others = {unit[0] for unit in units if unit[2] == "reserved"} if with_others else set()
        first = min((unit[1], j) for j, unit in enumerate(units) if unit[0] == text and unit[2] == kind)
        expected.append(kind == "usable" and (text in others or first[1] != i))
    assert duplicates(texts, order, usable, reserved if with_others else None).tolist() == expected


def test_narrowed_keeps_units_and_counts_those_left_out() -> None:
    selected = Selection(np.array([0, 2, 2, 3]), {"too short": 2})
    narrowed = selected.narrowed(np.array([True, True, False, True, False]), "repeated")
    assert narrowed.indices.tolist() == [0, 3] and narrowed.left_out == {"too short": 2, "repeated": 1}
    assert selected.narrowed(np.ones(5, dtype=bool), "repeated").left_out == {"too short": 2}


# Counts and texts


@pytest.mark.parametrize(("most", "counted"), [(None, 10**9), (4, 10**9), (None, 7)])
def test_token_counts_equal_a_naive_loop(
    table: TokenTable, monkeypatch: pytest.MonkeyPatch, most: int | None, counted: int
) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", counted)
    indices = np.arange(3, 190, 2)
    chosen = indices if counted > 100 else indices[np.linspace(0, len(indices) - 1, counted).astype(int)]
    expected = Counter(token for i in chosen for token in ids(TEXTS[i])[:most])
    counts = table.token_counts(indices, most=most)
    assert counts.shape == (320,) and {i: n for i, n in enumerate(counts.tolist()) if n} == expected


def test_held_out_texts_are_those_of_dev(
    table: TokenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {normalise(TEXTS[i]) for i in table.select("dev").indices}
    assert set(table.held_out_texts()) == expected
    monkeypatch.setattr(module, "HELD_OUT_DOCUMENTS", 30)
    few = prepare(Listed(DOCUMENTS, dev_fraction=0.2), BPE, cache=tmp_path / "few").held_out_texts()
    assert len(few) == 30 and set(few) < expected
    dev = [Document(f"held  out {i % 40}", part="dev") for i in range(80)]
    kept = prepare(Listed([*DOCUMENTS, *dev]), BPE, cache=tmp_path).held_out_texts()
    assert len(kept) == len(set(kept)) == 30 and all(re.match("held out", text) for text in kept)


def test_long_held_out_texts_are_cut_until_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT_DOCUMENTS", 6)
    monkeypatch.setattr(module, "HELD_OUT_CHARACTERS", 6400)
    uncut = [document(i, words) for i, words in enumerate([400, 400, *[3000] * 9])]
    kept = prepare(Listed([Document(text, part="dev") for text in uncut]), BPE, cache=tmp_path).held_out_texts()
    assert len(kept) == 6 and {len(text) for text in kept} == {800}
    assert all(any(normalise(text).startswith(each) for text in uncut) for each in kept)
