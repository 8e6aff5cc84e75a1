"""Expansion of vocabularies by a linear map from other word vectors (Kiros et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.model_names import model_name
from analysis.models import open_encoder
from data.vectors import WordVectors
from encoders.expansion import expand
from encoders.gru import GRU
from encoders.recurrent import Recurrent
from tests.checks.encoder import check_folder, train_tokenizer
from tests.encoders import bilstms
from tests.encoders.bilstms import SENTENCES

KNOWN = [f"w{number}" for number in range(60)]
NEW = ["zebra", "okapi", "o'brien", "u.s."]


def tiny() -> Any:
    texts = [" ".join(KNOWN[: number + 1]) for number in range(60)]  # w0 is the most frequent word
    tokenizer = train_tokenizer(GRU, texts, min_count=1, lowercase=True)
    return bilstms.tiny(GRU, word_size=6, max_length=30, tokenizer=tokenizer)


@pytest.fixture
def make_vectors(tmp_path: Path) -> Callable[..., WordVectors]:
    """Returns a function that writes word vectors and sets the encoder's to an affine map of them plus noise."""

    def make(encoder: Recurrent, words: list[str], noise: float = 0.0, width: int = 3) -> WordVectors:
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(len(words), width)).round(3)
        matrix, constant = rng.normal(size=(width, 6)), rng.normal(size=6)
        for word, row in zip(words, rows, strict=True):
            if (place := encoder.tokenizer.get_vocab().get(word)) is not None:
                mapped = row @ matrix + constant + noise * rng.normal(size=6)
                encoder.embedding.weight.data[place] = torch.tensor(mapped)
        path = tmp_path / "vectors.txt"
        path.write_text("".join(f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, rows, strict=True)))
        return WordVectors(path)

    return make


def map_by_hand(encoder: Recurrent, vectors: WordVectors, shared: list[str], words: list[str]) -> np.ndarray:
    """Solves the least-squares problem of the module with a column of ones for the constant."""
    sources = np.array([[*vectors.vectors[vectors.stoi[word]], 1] for word in shared])
    targets = encoder.embedding.weight.detach()[encoder.tokenizer.convert_tokens_to_ids(shared)].numpy()
    solution = np.linalg.lstsq(sources, targets)[0]
    return np.array([[*vectors.vectors[vectors.stoi[word]], 1] for word in words]) @ solution


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_new_words_are_mapped_by_least_squares(noise: float, make_vectors: Any) -> None:
    encoder = tiny()
    vectors = make_vectors(encoder, [*NEW, *KNOWN[:40], "well-known?", "don't", "</s>"], noise)
    size = len(encoder.tokenizer)
    expanded = expand(encoder, vectors, "vectors.txt")
    assert expanded.format.vocab_size == size + 4 and "map of 40 shared" in expanded.origin
    assert expanded.tokenizer.convert_tokens_to_ids(NEW) == [*range(size, size + 4)]
    expected = map_by_hand(encoder, vectors, KNOWN[:40], NEW)
    np.testing.assert_allclose(expanded.embedding.weight[size:].detach(), expected, atol=1e-5)


def test_old_words_encode_as_before_and_new_ones_differ(make_vectors: Any, tmp_path: Path) -> None:
    encoder = tiny()
    encoder.add_mlm_head()
    expanded = expand(encoder, make_vectors(encoder, [*NEW, *KNOWN]), "vectors.txt")
    known = ["w3 w5 w1", "w0", "", "w7 unheard w8", *SENTENCES]
    np.testing.assert_array_equal(expanded.encode(known), encoder.encode(known))
    assert len(np.unique(encoder.encode(NEW), axis=0)) == 1  # all unknown
    assert len(np.unique(expanded.encode(["zebra", "okapi", "o'brien", "U.S."]), axis=0)) == 4
    check_folder(expanded, tmp_path / "saved")
    assert encoder.has_mlm_head and not expanded.has_mlm_head and expanded.format.max_length == 30


def test_the_exact_form_of_a_word_is_preferred_to_another_case(make_vectors: Any) -> None:
    encoder = tiny()
    vectors = make_vectors(encoder, ["Zebra", "OKAPI", *KNOWN, "okapi", "Okapi"])
    expanded = expand(encoder, vectors, "vectors.txt")
    assert len(expanded.tokenizer) == len(encoder.tokenizer) + 2
    table = expanded.embedding.weight[expanded.tokenizer.convert_tokens_to_ids(["zebra", "okapi"])].detach()
    np.testing.assert_allclose(table, map_by_hand(encoder, vectors, KNOWN, ["Zebra", "okapi"]), atol=1e-5)


def test_models_are_opened_with_further_words(tmp_path: Path, make_vectors: Any) -> None:
    encoder, folder, file = tiny(), str(tmp_path / "a"), str(tmp_path / "vectors.txt")
    expanded = expand(encoder, make_vectors(encoder, KNOWN + NEW), file)
    encoder.save(folder)
    opened: Any = open_encoder(f"{folder}+{folder}", expand=file)
    np.testing.assert_array_equal(opened.encode(NEW), np.hstack([expanded.encode(NEW)] * 2))
    assert model_name(folder, expand=file) == f"{folder}, expand vectors.txt"
