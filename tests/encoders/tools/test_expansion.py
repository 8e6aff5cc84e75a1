"""Expansion of vocabularies by a linear map from other word vectors (Kiros et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoders
from data.errors import UserError
from data.vectors import WordVectors
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.recurrent import Recurrent
from encoders.tools import expansion
from encoders.tools.expansion import expand
from tests.checks.encoder import check_folder
from tests.encoders import bilstms
from tests.encoders.bilstms import SENTENCES

KNOWN = [f"w{number}" for number in range(60)]
NEW = ["zebra", "okapi", "o'brien", "u.s."]


def tiny(kind: type[Recurrent] = GRU) -> Any:
    texts = [" ".join(KNOWN[: number + 1]) for number in range(60)]  # w0 is the most frequent word
    tokenizer = kind.train_tokenizer(texts, min_count=1, lowercase=True)
    return bilstms.tiny(kind, word_size=6, max_length=30, tokenizer=tokenizer)


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
    expanded, facts = expand(encoder, vectors, "vectors.txt")
    assert (facts["shared"], facts["added"], expanded.format.vocab_size) == (40, 4, size + 4)
    assert expanded.tokenizer.convert_tokens_to_ids(NEW) == [
        size,
        size + 1,
        size + 2,
        size + 3,
    ]
    expected = map_by_hand(encoder, vectors, KNOWN[:40], NEW)
    np.testing.assert_allclose(expanded.embedding.weight[size:].detach(), expected, atol=1e-5)


def test_old_words_encode_as_before_and_new_ones_differ(make_vectors: Any) -> None:
    encoder = tiny()
    encoder.add_mlm_head()
    expanded, _ = expand(encoder, make_vectors(encoder, [*NEW, *KNOWN]), "vectors.txt")
    known = ["w3 w5 w1", "w0", "", "w7 unheard w8", *SENTENCES]
    np.testing.assert_array_equal(expanded.encode(known), encoder.encode(known))
    assert len(np.unique(encoder.encode(NEW), axis=0)) == 1  # all unknown
    assert len(np.unique(expanded.encode(["zebra", "okapi", "o'brien", "U.S."]), axis=0)) == 4
    assert encoder.has_mlm_head and not expanded.has_mlm_head and expanded.format.max_length == 30


def test_the_exact_form_of_a_word_is_preferred_to_another_case(make_vectors: Any) -> None:
    encoder = tiny()
    vectors = make_vectors(encoder, ["Zebra", "OKAPI", *KNOWN, "okapi", "Okapi"])
    expanded, facts = expand(encoder, vectors, "vectors.txt")
    assert facts["added"] == 2
    table = expanded.embedding.weight[expanded.tokenizer.convert_tokens_to_ids(["zebra", "okapi"])].detach()
    np.testing.assert_allclose(table, map_by_hand(encoder, vectors, KNOWN, ["Zebra", "okapi"]), atol=1e-5)


def test_the_fit_is_measured_on_held_out_words(make_vectors: Any) -> None:
    encoder = tiny()
    exact, noisy = (
        expand(encoder, make_vectors(encoder, [*KNOWN, "zebra"], noise, width=30), "a")[1] for noise in (0.0, 3.0)
    )
    # On the 54 words of the fit, 30 dimensions fit even the noise almost perfectly.
    assert exact["r2"] > 0.999 > 0.9 > noisy["r2"] and exact["cosine"] > noisy["cosine"]


def test_new_and_shared_words_are_needed(make_vectors: Any) -> None:
    encoder = tiny()
    for words in ([*KNOWN[:9], *NEW], KNOWN):
        with pytest.raises(UserError):
            expand(encoder, make_vectors(encoder, words), "v.txt")


def test_the_command_expands_a_folder(
    make_vectors: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = tiny(BiLSTMMax)
    make_vectors(encoder, [*NEW, *KNOWN])
    encoder.save(tmp_path / "old", card="# Old\n\n## Data\n\nbooks\n\n## Use\n\n...\n")
    file, new = str(tmp_path / "vectors.txt"), tmp_path / "new"
    assert expansion.main([str(tmp_path / "old"), file, str(new)]) == 0
    facts = capsys.readouterr().out.strip()
    assert facts in (new / "README.md").read_text()
    assert facts == "shared 60, added 4, cosine 1, r2 1"
    again = encoders.load(new)
    assert len(again.tokenizer) == 69 and "4 words added by vectors.txt" in again.origin
    check_folder(again, tmp_path / "again")
    for words, folder in (("/absent", "other"), (file, "new")):
        assert expansion.main([str(tmp_path / "old"), words, str(tmp_path / folder)]) == 2
