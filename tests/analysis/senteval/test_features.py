from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.senteval import features
from analysis.senteval.features import embed, embed_file
from data.errors import UserError
from encoders.random_vectors import RandomVectors


class RecordingEncoder(RandomVectors):
    """Records its inputs; returns random vectors, but infinite ones for sentences that begin with "bad"."""

    def __init__(self, dimension: int = 6) -> None:
        super().__init__(dimension=dimension)
        self.batches: list[list[str]] = []

    def encode(self, sentences: Sequence[str], **options: object) -> np.ndarray:
        self.batches.append(list(sentences))
        vectors = super().encode(sentences)
        vectors[[sentence.startswith("bad") for sentence in sentences]] = np.inf
        return vectors


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "CHUNK", 4)


SENTENCES = ["a", "bb bb", "", "a", "ccc " * 9, "é", ".", "bb bb", "dd"]
DISTINCT = list(dict.fromkeys(SENTENCES))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
def test_each_distinct_sentence_is_embedded_once_longest_first(cached: bool, tmp_path: Path) -> None:
    encoder = RecordingEncoder()
    shares: list[float] = []
    cache = tmp_path / "cache" if cached else None
    vectors = embed(encoder, SENTENCES, cache=cache, key="k", progress=shares.append)
    requested = [sentence for chunk in encoder.batches for sentence in chunk]
    assert sorted(requested) == sorted(DISTINCT) and [len(chunk) for chunk in encoder.batches] == [4, 3]
    assert [len(sentence) for sentence in requested] == sorted(map(len, requested), reverse=True)
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 2
    assert vectors.matrix.shape[1] == 6 and vectors.matrix.dtype == np.float32
    rows = vectors.rows(SENTENCES)
    assert type(rows) is np.ndarray
    np.testing.assert_array_equal(rows, RandomVectors(dimension=6).encode(SENTENCES))
    index = vectors.index(SENTENCES)
    assert index.dtype == np.int64 and index[0] == index[3]
    np.testing.assert_array_equal(vectors.matrix[index], rows)
    assert vectors.rows([]).shape == (0, 6)
    with pytest.raises(KeyError):
        vectors.index(["never embedded"])
    assert (tmp_path / "cache").exists() == cached


def test_cached_sentences_are_not_embedded_again(tmp_path: Path) -> None:
    embed(RecordingEncoder(), SENTENCES[:5], cache=tmp_path, key="k")
    encoder = RecordingEncoder()
    vectors = embed(encoder, SENTENCES, cache=tmp_path, key="k")
    assert sorted(encoder.batches[0]) == sorted(set(SENTENCES) - set(SENTENCES[:5]))
    np.testing.assert_array_equal(vectors.rows(SENTENCES), RandomVectors(dimension=6).encode(SENTENCES))
    new_encoder = RecordingEncoder()
    assert (
        isinstance(embed(new_encoder, SENTENCES, cache=tmp_path, key="k").matrix, np.memmap)
        and not new_encoder.batches
    )
    embed(new_encoder, SENTENCES, cache=tmp_path, key="another")
    assert new_encoder.batches


def test_an_encoder_may_fill_the_same_array_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reusing(RandomVectors):
        array = np.empty((4, 6), np.float32)

        def encode(self, sentences: Sequence[str], **options: object) -> np.ndarray:
            self.array[:] = super().encode(sentences)
            return self.array

    sentences = [f"s{i}" for i in range(400)]
    append = features._append

    def slow(*arguments: Any) -> None:
        time.sleep(0.001)  # the next chunk is computed meanwhile
        append(*arguments)

    monkeypatch.setattr(features, "_append", slow)
    found = embed(Reusing(dimension=6), sentences, cache=tmp_path, key="k").rows(sentences)
    np.testing.assert_array_equal(found, RandomVectors(dimension=6).encode(sentences))


def test_no_sentences_give_no_vectors(tmp_path: Path) -> None:
    for cache in (None, tmp_path):
        assert embed(RecordingEncoder(), [], cache=cache, key="k").matrix.shape == (0, 6)


@given(st.lists(st.lists(st.text(max_size=3), max_size=9), max_size=4))
def test_any_sequence_of_requests_gives_the_right_vectors(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[str]]
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    for request in requests:
        vectors = embed(RandomVectors(dimension=3), request, cache=cache, key="k")
        np.testing.assert_array_equal(vectors.rows(request), RandomVectors(dimension=3).encode(request))


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=30), st.integers(0, 30))
def test_hashes_are_found_at_their_rows(digests: list[bytes], cut: int) -> None:
    kept = list(dict.fromkeys([bytes(15) + b"\1", bytes(16), *digests[:cut]]))
    wanted = [*digests, bytes(16), b"\1" + bytes(15)]
    found = features._places(*(np.frombuffer(b"".join(each), dtype=features.HASH) for each in (kept, wanted)))
    assert found.tolist() == [kept.index(digest) if digest in kept else -1 for digest in wanted]


@pytest.mark.parametrize(
    "extra_bytes",
    [
        pytest.param((7, 0), id="part of a row"),
        pytest.param((24 * 3 + 5, 0), id="rows and part of a row"),
        pytest.param((24 * 3, 11), id="rows and part of a hash"),
        pytest.param((24, 16 - 1), id="row and part of its hash"),
    ],
)
def test_what_a_killed_process_left_behind_is_overwritten(extra_bytes: tuple[int, int], tmp_path: Path) -> None:
    embed(RecordingEncoder(), ["a", "b"], cache=tmp_path, key="k")
    for name, count in zip((features.ROWS, features.HASHES), extra_bytes, strict=True):
        with (tmp_path / "k" / name).open("ab") as file:
            file.write(b"\7" * count)
    for request in (["b", "a"], SENTENCES, SENTENCES):
        vectors = embed(RecordingEncoder(), request, cache=tmp_path, key="k")
        np.testing.assert_array_equal(vectors.rows(request), RandomVectors(dimension=6).encode(request))


WRITER = """
import sys
import numpy as np
from pathlib import Path
from analysis.senteval import features
from encoders.random_vectors import RandomVectors
features.CHUNK = 4
class Slow(RandomVectors):
    def encode(self, sentences):
        vectors = super().encode(sentences)
        print("chunk", flush=True)
        return vectors
features.embed(Slow(dimension=6), [f"sentence {i}" for i in range(100_000)], cache=Path(sys.argv[1]), key="k")
"""


def test_a_kill_leaves_a_usable_store(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(6):
        assert process.stdout.readline() == "chunk\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    kept = features._kept(tmp_path / "k", 6)
    assert 4 * 4 <= len(kept) < 100_000  # the fifth chunk may have been half-written
    request = [f"sentence {i}" for i in range(100_000 - 40, 100_000)] + ["sentence 3"]
    vectors = embed(RecordingEncoder(), request, cache=tmp_path, key="k")
    np.testing.assert_array_equal(vectors.rows(request), RandomVectors(dimension=6).encode(request))
    np.testing.assert_array_equal(features._kept(tmp_path / "k", 6)[: len(kept)], kept)


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    encoders = RecordingEncoder(), RecordingEncoder()
    requests = [[f"s{i}" for i in range(40)], [f"s{i}" for i in range(20, 60)]]
    found: dict[int, np.ndarray] = {}

    def embed_request(index: int) -> None:
        found[index] = embed(encoders[index], requests[index], cache=tmp_path, key="k").rows(requests[index])

    threads = [threading.Thread(target=embed_request, args=(index,)) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in (0, 1):
        np.testing.assert_array_equal(found[index], RandomVectors(dimension=6).encode(requests[index]))
    assert sum(len(chunk) for encoder in encoders for chunk in encoder.batches) == 60


def test_a_writer_for_whom_another_has_computed_all_computes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock, waiting = features.FileLock, RecordingEncoder()

    def late(path: Path) -> Any:
        monkeypatch.setattr(features, "FileLock", lock)
        embed(RecordingEncoder(), SENTENCES, cache=tmp_path, key="k")  # the other has the lock first
        return lock(path)

    monkeypatch.setattr(features, "FileLock", late)
    found = embed(waiting, SENTENCES, cache=tmp_path, key="k").rows(SENTENCES)
    np.testing.assert_array_equal(found, RandomVectors(dimension=6).encode(SENTENCES))
    assert waiting.batches == []


def test_unusable_vectors_and_stores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        embed(RecordingEncoder(), ["fine", "bad sentence"], cache=None, key="k")
    with pytest.raises(UserError):
        embed(RecordingEncoder(), ["bad", *(f"a longer one {i}" for i in range(4))], cache=tmp_path, key="k")
    assert len(features._kept(tmp_path / "k", 6)) == 4  # the chunk before the failure
    with (tmp_path / "k" / features.ROWS).open("r+b") as file:
        file.truncate(50)
    for request in (["a longer one 1"], ["new"]):
        with pytest.raises(UserError):
            embed(RecordingEncoder(), request, cache=tmp_path, key="k")


def test_a_file_is_embedded_line_by_line(tmp_path: Path) -> None:
    lines = ["a b", "", " \t", "é\u2028c", "x\u00a0", "a b", " lead", "last"]
    text = "\ufeff" + "\r\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:])
    (tmp_path / "in.txt").write_bytes(text.encode())
    shares: list[float] = []
    encoder = RecordingEncoder()
    embed_file(encoder, tmp_path / "in.txt", tmp_path / "deep" / "out.npy", shares.append)
    vectors = np.load(tmp_path / "deep" / "out.npy", allow_pickle=False)
    expected = ["a b", ".", ".", ".", *lines[3:]]
    assert vectors.dtype == np.float32 and vectors.flags.c_contiguous
    np.testing.assert_array_equal(vectors, RandomVectors(dimension=6).encode(expected))
    assert [len(chunk) for chunk in encoder.batches] == [4, 4, 1] and shares == [4 / 9, 8 / 9, 1.0]
    assert np.load(tmp_path / "deep" / "out.npy", mmap_mode="r").shape == (9, 6)


def test_a_file_that_cannot_be_embedded_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    places = {
        b"one\ntwo\nbad\n": ":3",
        b"one\ntwo\ncaf\xe9\n": ":3",
        b"one\n\0\n": ":2",
        b"a" * (6 << 20) + b"a\n": ":1",
        b"": "",
    }
    for content, place in places.items():
        (tmp_path / "in.txt").write_bytes(content)
        with pytest.raises(UserError) as error:
            embed_file(RecordingEncoder(), tmp_path / "in.txt", out)
        assert error.value.key == f"{tmp_path / 'in.txt'}{place}"
    with pytest.raises(UserError):
        embed_file(RecordingEncoder(), tmp_path / "absent.txt", out)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_large_file_is_embedded_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    class SizeRecorder(RandomVectors):
        def encode(self, sentences: Sequence[str], **options: object) -> np.ndarray:
            nonlocal largest
            largest = max(largest, len(sentences))
            return np.zeros((len(sentences), self.dimension), dtype=np.float32)

    monkeypatch.setattr(features, "CHUNK", 1000)
    (tmp_path / "in.txt").write_text("a sentence\n" * 50_500)
    embed_file(SizeRecorder(dimension=2), tmp_path / "in.txt", tmp_path / "out.npy")
    assert largest == 1000 and np.load(tmp_path / "out.npy", mmap_mode="r").shape == (50_500, 2)
