from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.errors import UserError
from data.vectors import WordVectors, vocab
from tests.real_data import suite_data

GLOVE = "the 0.5 -1 2e-3\n, 1 2 3\nÉté -0.25 .5 +4\n"
EXPECTED = np.array([[0.5, -1, 2e-3], [1, 2, 3], [-0.25, 0.5, 4]], dtype=np.float32)


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def compressed(name: str, text: str) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(text.encode())
    if name.endswith(".zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inside.txt", text)
        return buffer.getvalue()
    return text.encode()


@pytest.mark.parametrize("name", ["a.txt", "a.vec", "a.txt.gz", "a.zip"])
@pytest.mark.parametrize(
    "text",
    [
        GLOVE,
        f"3 3\n{GLOVE}",
        GLOVE.replace("\n", " \n"),
        GLOVE.replace("\n", "\r\n"),
        GLOVE.rstrip(),
        f"\ufeff{GLOVE}\n",
    ],
    ids=["glove", "word2vec", "fasttext's blank at the end", "crlf", "no last line end", "bom"],
)
def test_all_file_formats_give_the_same_vectors(text: str, name: str, tmp_path: Path) -> None:
    read = WordVectors(written(tmp_path / name, compressed(name, text)))
    assert read.words == ["the", ",", "Été"]
    assert read.dim == 3
    assert read.vectors.dtype == torch.float32
    np.testing.assert_array_equal(read.vectors.numpy(), EXPECTED)


def test_lookup_behaves_like_torchtexts(tmp_path: Path) -> None:
    read = WordVectors(written(tmp_path / "a.txt", GLOVE))
    assert isinstance(read, vocab.Vectors) and len(read) == 3
    found = read.get_vecs_by_tokens(["THE", "unknown", "Été"], lower_case_backup=True)
    np.testing.assert_array_equal(found.numpy(), [EXPECTED[0], [0, 0, 0], EXPECTED[2]])


@pytest.mark.parametrize("name", ["glove.100d.10k.txt.gz", "word2vec.300d.4k.txt.gz"])
def test_real_files_read_as_torchtext_reads_them(name: str, tmp_path: Path) -> None:
    path = suite_data(f"embeddings/{name}")
    ours, theirs = WordVectors(path), vocab.Vectors(str(path), cache=str(tmp_path))
    assert ours.words == theirs.itos and ours.stoi == theirs.stoi and ours.dim == theirs.dim
    assert torch.equal(ours.vectors, theirs.vectors)


def test_no_cache_is_written_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.txt", GLOVE)
    (tmp_path / ".vector_cache").mkdir()
    written(tmp_path / ".vector_cache" / "a.txt.pt", b"whoever opens this unpickles it")
    monkeypatch.chdir(tmp_path)
    assert WordVectors("a.txt").words == WordVectors(path).words
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".vector_cache", "a.txt", "a.txt.pt"]


def test_the_first_of_equal_words_counts(tmp_path: Path) -> None:
    read = WordVectors(written(tmp_path / "a.txt", "a 1 2\nb 3 4\na 5 6\na 7 8\n"))
    assert read.words == ["a", "b"]
    np.testing.assert_array_equal(read.vectors.numpy(), [[1, 2], [3, 4]])


def test_empty_and_undecodable_words_are_skipped(tmp_path: Path) -> None:
    read = WordVectors(written(tmp_path / "a.txt", b"4 2\na 1 2\ncaf\xe9 3 4\n 5 6\nb\xc2\xa0c 7 8\n"))
    assert read.words == ["a", "b\u00a0c"]
    np.testing.assert_array_equal(read.vectors.numpy(), [[1, 2], [7, 8]])


def test_a_file_of_many_words_is_read_completely(tmp_path: Path) -> None:
    count = 100_000
    read = WordVectors(written(tmp_path / "a.txt", "".join(f"w{i} {i} {-i}\n" for i in range(count))))
    assert len(read.words) == count and read.stoi[f"w{count - 1}"] == count - 1
    np.testing.assert_array_equal(read.vectors[:, 0].numpy(), np.arange(count, dtype=np.float32))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=5))
def test_numbers_survive_a_file(tmp_path_factory: pytest.TempPathFactory, row: list[float]) -> None:
    path = written(tmp_path_factory.mktemp("v") / "a.txt", f"word {' '.join(map(repr, row))}\n")
    np.testing.assert_array_equal(WordVectors(path).vectors.numpy(), np.array([row], dtype=np.float32))


def test_broken_files_are_refused_with_their_name(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        WordVectors(tmp_path / "absent.txt")
    with pytest.raises(UserError):
        WordVectors(tmp_path)
    complete = compressed("a.gz", "".join(f"w{i} {i}.5 {i}.25\n" for i in range(3000)))
    for broken in (complete[: len(complete) // 2], complete[:-6]):
        with pytest.raises(UserError):
            WordVectors(written(tmp_path / "b.txt.gz", broken))
    with pytest.raises(UserError):
        WordVectors(written(tmp_path / "c.gz", GLOVE))
    with zipfile.ZipFile(tmp_path / "name.zip", "w") as archive:
        archive.writestr("wörter.txt", "a 1\n")
    broken = (tmp_path / "name.zip").read_bytes().replace("ö".encode(), b"\xff\xff")
    (tmp_path / "name.zip").write_bytes(broken)
    with pytest.raises(UserError):
        WordVectors(tmp_path / "name.zip")
    with pytest.raises(UserError):
        WordVectors(written(tmp_path / "d.zip", compressed("d.zip", GLOVE)[:-10]))
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        archive.writestr("50d.txt", GLOVE)
        archive.writestr("100d.txt", GLOVE)
    with pytest.raises(UserError):
        WordVectors(tmp_path / "e.zip")


def test_a_gzip_of_one_endless_line_is_not_held_in_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"a" * 10**7))
    with pytest.raises(UserError):
        WordVectors(tmp_path / "bomb.gz")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"one 1 2\ntwo 1\n", ":2"),
        (b"one 1 x\n", ":1"),
        (b"one 1 nan\n", ":1"),
        (b"one\t1\t2\n", ":1"),
        (b"3 2\none 1 2\n", ""),
        (b"", ""),
        (None, ""),
    ],
)
def test_a_file_that_holds_no_vectors_is_named(tmp_path: Path, content: bytes | None, line: str) -> None:
    path = tmp_path / "vectors.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as error:
        WordVectors(path)
    assert error.value.key == f"{path}{line}"
