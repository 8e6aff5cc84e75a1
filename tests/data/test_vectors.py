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


def test_empty_and_undecodable_words_are_skipped(tmp_path: Path) -> None:
    read = WordVectors(written(tmp_path / "a.txt", b"4 2\na 1 2\ncaf\xe9 3 4\n 5 6\nb\xc2\xa0c 7 8\n"))
    assert read.words == ["a", "b\u00a0c"]
    np.testing.assert_array_equal(read.vectors.numpy(), [[1, 2], [7, 8]])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=5))
def test_numbers_survive_a_file(tmp_path_factory: pytest.TempPathFactory, row: list[float]) -> None:
    path = written(tmp_path_factory.mktemp("v") / "a.txt", f"word {' '.join(map(repr, row))}\n")
    np.testing.assert_array_equal(WordVectors(path).vectors.numpy(), np.array([row], dtype=np.float32))


@pytest.mark.parametrize(
    "content",
    [b"one 1 2\ntwo 1\n", b"one 1 x\n", b"one 1 nan\n", b"one\t1\t2\n", b"", compressed("a.gz", GLOVE)[:-6], None],
)
def test_a_file_that_holds_no_vectors_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "vectors.txt.gz"
    if content is not None:
        path.write_bytes(content if content.startswith(b"\x1f") else gzip.compress(content))
    with pytest.raises(UserError) as error:
        WordVectors(path)
    assert error.value.key.startswith(str(path))
