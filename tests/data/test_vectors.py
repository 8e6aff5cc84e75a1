"""Word vectors of all file formats, compared with torchtext's reader."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from data.errors import UserError
from data.vectors import WordVectors, vocab
from tests.real_data import suite_data

GLOVE = "the 0.5 -1 2e-3\n, 1 2 3\nÉté -0.25 .5 +4\n"
VECTORS = np.array([[0.5, -1, 2e-3], [1, 2, 3], [-0.25, 0.5, 4]], dtype=np.float32)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.vec", f"3 3\n{GLOVE}", id="word2vec"),
        pytest.param("a.vec", GLOVE.replace("\n", " \n"), id="fasttext's blank at the end"),
        pytest.param("a.txt.gz", GLOVE.replace("\n", "\r\n").rstrip(), id="glove of Windows, packed"),
    ],
)
def test_all_file_formats_give_the_same_vectors(name: str, text: str, tmp_path: Path) -> None:
    table = WordVectors(write(tmp_path / name, text.encode()))
    assert isinstance(table, vocab.Vectors) and table.words == ["the", ",", "Été"] and table.dim == 3
    assert table.vectors.dtype == torch.float32
    np.testing.assert_array_equal(table.vectors.numpy(), VECTORS)


@pytest.mark.parametrize("name", ["glove.100d.10k.txt.gz", "word2vec.300d.4k.txt.gz"])
def test_real_files_read_as_torchtext_reads_them(name: str, tmp_path: Path) -> None:
    path = suite_data(f"embeddings/{name}")
    ours, theirs = WordVectors(path), vocab.Vectors(str(path), cache=str(tmp_path))
    assert ours.words == theirs.itos and ours.stoi == theirs.stoi and ours.dim == theirs.dim
    assert torch.equal(ours.vectors, theirs.vectors)


def test_no_cache_is_written_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", GLOVE.encode())
    (tmp_path / ".vector_cache").mkdir()
    write(tmp_path / ".vector_cache" / "a.txt.pt", b"whoever opens this unpickles it")
    monkeypatch.chdir(tmp_path)
    assert WordVectors("a.txt").words == WordVectors(path).words
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".vector_cache", "a.txt", "a.txt.pt"]


@pytest.mark.parametrize("content", [b"one 1 2\ntwo 1\n", b""])
def test_a_file_that_holds_no_vectors_is_named(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "vectors.txt", content)
    with pytest.raises(UserError) as error:
        WordVectors(path)
    assert error.value.key == str(path)
