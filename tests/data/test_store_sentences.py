"""The token store of sentences: what its units are, which of them are selected, and what is held out."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import nltk.data
import numpy as np
import pytest

from data import store as module
from data import tokenising
from data.errors import UserError
from data.randomness import generator
from data.sentences import Sentences, split_sentences
from data.sources.base import Document, Part, normalise
from data.sources.text import Text
from data.store import TokenStore, prepare
from data.vocabulary import train_word_level
from tests.data.samples import WORDS, Listed, tokenizer
from tests.support import suite_data

PARTS: tuple[Part, ...] = ("train", "dev")
ALL = Sentences(min_words=1, max_words=1000, unique=False)


def sentence(i: int) -> str:
    """Eight to fifteen words, not the same for two numbers."""
    rng = generator(9, i)
    chosen = [WORDS[j] for j in rng.integers(len(WORDS), size=6 + i % 8)]
    return " ".join(["Sentence", str(i), *chosen]) + "."


def document(i: int) -> list[str]:
    """Sentences of document ``i``: some that every third one has too, one that is short, one that is long."""
    own = [sentence(5 * i + j) for j in range(5)]
    extra = {0: ["This sentence comes again and again."], 1: ["Oh no."], 2: [" ".join(["Long", *WORDS * 6]) + "."]}
    return own[:2] + extra[i % 3] + own[2:]


LISTED = [document(i) for i in range(120)]
DOCUMENTS = [Document(" ".join(listed), f"book {i // 3}" if i % 2 else None) for i, listed in enumerate(LISTED)]
FLAT = [one for listed in LISTED for one in listed]
OWNERS = [i for i, listed in enumerate(LISTED) for _ in listed]
TOKENIZER = train_word_level(FLAT, vocab_size=2000, min_count=1, max_length=64)


@pytest.fixture(autouse=True)
def no_nltk_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("cache")


def opened(cache: Path, sentences: Sentences | None = ALL, workers: int | None = 0) -> TokenStore:
    return prepare(
        Listed(DOCUMENTS, dev_fraction=0.3), TOKENIZER, cache=cache, sentences=sentences, workers=workers
    )


def ids(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False).input_ids


def test_units_are_sentences_in_their_order(cache: Path) -> None:
    store = opened(cache)
    assert [store[i].tolist() for i in range(len(store))] == [ids(text) for text in FLAT]
    assert store.documents.tolist() == OWNERS
    assert store.lengths.tolist() == [len(ids(text)) for text in FLAT]


def test_the_same_documents_are_held_out_by_both_units(cache: Path) -> None:
    sentences, documents = opened(cache), opened(cache, None)
    assert sentences.folder != documents.folder and documents.documents.tolist() == list(range(120))
    cases: list[tuple[Part, float]] = [("train", 1.0), ("train", 0.4), ("dev", 1.0)]
    for part, fraction in cases:
        chosen = sentences.select(part, fraction=fraction).indices
        whole = documents.select(part, fraction=fraction).indices
        assert np.unique(sentences.documents[chosen]).tolist() == whole.tolist()
    assert sentences.held_out_texts() == documents.held_out_texts()
    assert set(sentences.held_out_texts()) <= {document.text for document in DOCUMENTS}


def test_rules_act_on_words_and_share_one_store(cache: Path) -> None:
    words = np.array([len(text.split()) for text in FLAT])
    for rules in (Sentences(min_words=3, max_words=64, unique=False), Sentences(min_words=9, max_words=9)):
        store = opened(cache, rules)
        assert store.folder == opened(cache).folder
        for part in PARTS:
            chosen = store.select(part)
            everything = opened(cache).select(part)
            inside = words[everything.indices]
            assert ((words[chosen.indices] >= rules.min_words) & (words[chosen.indices] <= rules.max_words)).all()
            assert chosen.left_out["too short"] == (inside < rules.min_words).sum()
            assert chosen.left_out["too long"] == (inside > rules.max_words).sum()
            assert chosen.total == everything.total == len(everything.indices)
            assert chosen.skipped == sum(chosen.left_out.values()) == chosen.total - len(chosen.indices)


def test_a_sentence_is_taken_once_and_never_in_both_parts(cache: Path) -> None:
    store = opened(cache, Sentences())
    train, dev = ({FLAT[i] for i in store.select(part).indices} for part in PARTS)
    assert not train & dev
    again = LISTED[0][2]
    for part, taken, texts in zip(PARTS, (1, 0), (train, dev), strict=True):
        chosen = store.select(part)
        everything = opened(cache).select(part)
        assert len(texts) == len(chosen.indices) and (again in texts) == bool(taken)
        assert chosen.left_out["repeated"] == [FLAT[i] for i in everything.indices].count(again) - taken


def test_fractions_are_nested_sentence_by_sentence(cache: Path) -> None:
    store = opened(cache, Sentences())
    chosen = [store.select("train", fraction=share).indices for share in (0.2, 0.5, 1.0)]
    assert set(chosen[0]) < set(chosen[1]) < set(chosen[2])
    dev = store.select("dev")
    assert store.select("dev", fraction=0.2).indices.tolist() == dev.indices.tolist()


def test_two_different_tokens(tmp_path: Path) -> None:
    documents = [Document("cat cat cat"), Document("cat cat dog"), Document("dog"), Document("cat dog cat")]
    source = Listed(documents, dev_fraction=0.0)
    words = train_word_level(["cat dog"], vocab_size=10, min_count=1, max_length=8)
    store = prepare(source, words, cache=tmp_path, sentences=Sentences(split=False, min_words=1))
    chosen = store.select("train", different_tokens=True)
    assert chosen.indices.tolist() == [1, 3] and chosen.left_out == {"of one token": 2}
    assert (
        prepare(source, words, cache=tmp_path).select("train", different_tokens=True).left_out == chosen.left_out
    )


def test_lines_that_are_sentences_already(tmp_path: Path) -> None:
    lines = ["One. Two. Three.", "A line of its own", "One. Two. Three.", "", "Held out here"]
    (tmp_path / "lines.txt").write_text("\n".join(lines[:4]))
    (tmp_path / "dev.txt").write_text("\n".join([*lines[1:2], *lines[4:]]))
    source = Text(path=str(tmp_path / "lines.txt"), dev_path=str(tmp_path / "dev.txt"))
    store = prepare(source, TOKENIZER, cache=tmp_path, sentences=Sentences(split=False))
    assert len(store) == 5 and store[0].tolist() == ids(lines[0])
    train, dev = store.select("train"), store.select("dev")
    assert (train.indices.tolist(), train.left_out) == ([0, 1], {"repeated": 1})
    assert (dev.indices.tolist(), dev.left_out) == ([4], {"repeated": 1})


def test_processes_make_the_same_store(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 2000)
    store, other = opened(cache), opened(tmp_path, workers=2)
    for name in ("ids.bin", "index.bin", "held_out.jsonl", "meta.json"):
        assert (other.folder / name).read_bytes() == (store.folder / name).read_bytes()


def test_fewer_chunks_start_processes_for_splitting(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def in_processes(chunks: Iterator[tokenising.Chunk], *_: object) -> Iterator[tokenising.Tokenised]:
        taken.append(len(list(chunks)))
        return iter(())

    monkeypatch.setattr(tokenising, "_in_processes", in_processes)
    monkeypatch.setattr(tokenising.os, "sched_getaffinity", lambda _: range(4), raising=False)
    json = TOKENIZER.backend_tokenizer.to_str()
    chunks = [tokenising.Chunk(["text"])] * tokenising.SMALL_CHUNKS_SPLIT
    for split in (None, str.splitlines):
        tokenise = tokenising.Tokenise(json, False, np.dtype("<u2"), sentences=True, split=split)
        list(tokenising.tokenised(chunks, tokenise, None))
    assert taken == [len(chunks)]


def test_the_way_of_splitting_is_in_the_fingerprint(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {opened(cache, rules).fingerprint for rules in (None, ALL, Sentences(split=False))}
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    assert len(keys | {opened(cache).fingerprint}) == 4


def test_blank_lines_end_a_sentence_and_case_helps_to_split(tmp_path: Path) -> None:
    text = "A Heading\r\n \nThe cat\nsat. It slept.\n\n\n"
    source = Listed([Document(text, part="dev")], lowercase=True)
    expected = ["a heading", "the cat sat.", "it slept."]
    words = train_word_level(expected, vocab_size=50, min_count=1, max_length=8)
    store = prepare(source, words, cache=tmp_path, sentences=ALL)
    assert [words.decode(store[i]) for i in range(len(store))] == ["a heading", "the cat sat .", "it slept ."]
    assert store.held_out_texts() == ["a heading the cat sat. it slept."]


def test_byte_level_sentences_get_a_leading_blank(tmp_path: Path) -> None:
    bpe = tokenizer()
    store = prepare(Listed(DOCUMENTS[:2]), bpe, cache=tmp_path, sentences=ALL)
    assert store[1].tolist() == bpe(" " + FLAT[1], add_special_tokens=False).input_ids


def test_a_copy_for_a_worker_has_the_same_rules(cache: Path) -> None:
    store = opened(cache, Sentences(max_words=9))
    copy = pickle.loads(pickle.dumps(store))
    assert copy.select("train").indices.tolist() == store.select("train").indices.tolist()
    assert copy[3].tolist() == store[3].tolist()


def test_refusals(cache: Path, tmp_path: Path) -> None:
    store = opened(cache)
    total = store.select("train").total
    longest = max(store.lengths[store.select("train").indices])
    with pytest.raises(
        UserError,
        match=rf"^No train sentence has the 999 tokens needed \(the longest has {longest}\)\.$",
    ):
        store.select("train", min_tokens=999)
    with pytest.raises(
        UserError,
        match=rf"^No train sentence can be used \({total} too short; sentences\.min_words=900, "
        r"sentences\.max_words=1000\)\.$",
    ):
        opened(cache, Sentences(min_words=900, max_words=1000)).select("train")
    empty = prepare(Listed(DOCUMENTS[:7], dev_fraction=0.0), TOKENIZER, cache=tmp_path, sentences=ALL)
    with pytest.raises(UserError, match=r"^The dev part has no document \(corpus\.dev_fraction=0\)\.$"):
        empty.select("dev")
    with pytest.raises(UserError, match=r"^Corpus listed has no text: 1 documents, all of them empty\.$"):
        prepare(Listed([Document(" \n\n ")]), TOKENIZER, cache=tmp_path, sentences=ALL)


def test_damaged_store_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path).folder
    content = (folder / "index.bin").read_bytes()
    (folder / "index.bin").write_bytes(content[: -module.SENTENCE_ENTRY.itemsize])
    with pytest.raises(UserError, match=r"is damaged: delete the folder"):
        opened(tmp_path)


def test_real_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(suite_data("nltk_data"))])
    with gzip.open(suite_data("corpora/standardebooks") / "shard-2.jsonl.gz") as lines:
        (tmp_path / "books.jsonl").write_bytes(b"".join(islice(lines, 8)))
    source = Text(path=str(tmp_path / "books.jsonl"), dev_fraction=0.3)
    store = prepare(source, TOKENIZER, cache=tmp_path, sentences=Sentences())
    texts = split_sentences(normalise(document.text) for document in source.documents())
    assert len(store) == len(texts) > 1000
    for i in range(0, len(texts), 100):
        assert store[i].tolist() == ids(texts[i])
    chosen = store.select("train", min_tokens=6)
    assert 0.7 * chosen.total < len(chosen.indices) < chosen.total
