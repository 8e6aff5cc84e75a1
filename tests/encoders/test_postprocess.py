"""Linear maps of vectors against the papers' formulas in plain numpy; exports; refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import encoders
from data.errors import UserError
from data.sources.text import Text
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from encoders.postprocess import DOCUMENT_SENTENCES, Kind, fit, postprocess, training_sentences
from encoders.transformer import Transformer
from tests.checks.encoder import check_encoder
from tests.encoders import bilstms, models

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(900, 150)) @ RNG.normal(size=(150, 150)) + 5).astype(np.float32)


def naive(kind: Kind, components: int) -> np.ndarray:
    """Maps ``VECTORS`` by the papers' algorithms, with sums over sentences and directions written out."""
    vectors = VECTORS.astype(float)
    mean = sum(vectors) / len(vectors)
    if kind == "center":
        return vectors - mean
    covariance = sum(np.outer(row - mean, row - mean) for row in vectors) / (len(vectors) - 1)
    variances, axes = np.linalg.eigh(covariance)
    if kind == "all_but_the_top":  # Mu and Viswanath (2018), algorithm 1, on centred vectors
        result = vectors - mean
        for axis in axes.T[::-1][:components]:
            result = result - np.outer(result @ axis, axis)
        return result
    return (vectors - mean) @ axes[:, ::-1] / np.sqrt(variances[::-1])  # Su et al. (2021), algorithm 1


@pytest.mark.parametrize(
    ("kind", "given", "components"),
    [("center", None, 0), ("all_but_the_top", None, 2), ("all_but_the_top", 10, 10), ("whiten", None, 0)],
)
def test_maps_equal_the_papers_algorithms(kind: Kind, given: int | None, components: int) -> None:
    mean, matrix = fit(VECTORS, kind, components=given)
    mapped, expected = (VECTORS - mean) @ matrix, naive(kind, components)
    np.testing.assert_allclose(mapped, expected * np.sign((mapped * expected).sum(axis=0)), atol=1e-8)


def test_whitened_vectors_have_the_identity_as_covariance() -> None:
    mean, matrix = fit(VECTORS, "whiten", dimensions=20)
    whitened = (VECTORS - mean) @ matrix
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(20), atol=1e-9)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-9)


def test_directions_without_variance_are_left_out() -> None:
    flat = np.hstack([VECTORS[:, :9], VECTORS[:, :9].sum(axis=1, keepdims=True), np.ones((900, 1), np.float32)])
    mean, matrix = fit(flat, "whiten")
    np.testing.assert_allclose(np.cov(((flat - mean) @ matrix).T), np.eye(9), atol=1e-4)


def test_a_covariance_of_few_sentences_is_refused() -> None:
    for kind in ("all_but_the_top", "whiten"):
        with pytest.raises(UserError) as error:
            fit(VECTORS[:299], kind)
        assert error.value.key == "fit.sentences"
    fit(VECTORS[:300], "whiten")
    fit(VECTORS[:2], "center")


def bag(folder: Path) -> Encoder:
    words = ["the", "cat", "dog", "looked", "at"]
    (folder / "words.txt").write_text("".join(f"{word} {row} {row**2}\n" for row, word in enumerate(words)))
    return BagOfWords(vectors=str(folder / "words.txt"))


KINDS: dict[str, Callable[[Path], Encoder]] = {
    "transformer": lambda folder: models.tiny("bert", normalize=True),
    "bag_of_words": bag,
    "bilstm_max": lambda folder: bilstms.tiny(),
    "concatenated": lambda folder: Concatenated([bilstms.tiny(), models.tiny()]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_postprocessed_encoder_passes_the_checks_of_encoders(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    raw = KINDS[kind](tmp_path)
    encoder = postprocess(raw, models.texts(), "center", where="a text")
    vectors, mean = encoder.encode(models.SENTENCES), raw.encode(models.texts()).mean(axis=0)
    np.testing.assert_allclose(vectors, raw.encode(models.SENTENCES) - mean, atol=1e-5)
    assert encoder.fingerprint() != raw.fingerprint() and encoder.origin.endswith("120 sentences of a text")
    if kind == "transformer":
        check_encoder(encoder, tmp_path)  # which saves it; training opens it as one with a further module
        np.testing.assert_allclose(
            Transformer(path=str(tmp_path / "saved")).encode(models.SENTENCES), vectors, atol=1e-5
        )
        return
    encoder.save(tmp_path / "saved")
    np.testing.assert_array_equal(encoders.load(tmp_path / "saved").encode(models.SENTENCES), vectors)
    if encoder.opens_elsewhere:
        sentence_transformers = pytest.importorskip("sentence_transformers")
        theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
        np.testing.assert_allclose(theirs.encode(models.texts()), encoder.encode(models.texts()), atol=1e-5)


def test_sentences_are_those_of_the_training_documents(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{n} begins. {'It goes on. ' * 30}\n" for n in range(40)))
    source = Text(path=str(tmp_path / "text.txt"), dev_fraction=0.5)
    sentences, training = training_sentences(source), [*source.texts()]
    assert 0 < len(training) < 40 and len(sentences) == DOCUMENT_SENTENCES * len(training)
    assert sentences[::DOCUMENT_SENTENCES] == [text.partition(".")[0] + "." for text in training]
    assert training_sentences(source, 25) == sentences[:25]
