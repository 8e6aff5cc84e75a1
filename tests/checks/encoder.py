"""Checks that every encoder passes: ``check_encoder``, in the manner of scikit-learn's ``check_estimator``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoders
from data.batch import Tokens
from data.errors import UnfitError, UserError
from encoders.base import Encoder

SENTENCES = ["The cat sat on the mat.", "", "dog", "a dog looked at the cat and the dog " * 30, "the cat", "dog"]


def train_tokenizer(kind: type[Encoder], texts: Iterable[str], **settings: Any) -> Any:
    """Trains the tokenizer of an encoder with random weights."""
    recipe = kind.tokenizer_recipe(**settings)
    assert recipe is not None
    train, arguments = recipe
    return train(texts, **arguments)


def check_encoder(encoder: Encoder, folder: Path) -> None:
    """Runs all checks on a new ``encoder`` that knows some words of ``SENTENCES``, with an empty ``folder``."""
    check_forward(encoder)
    check_encode(encoder)
    check_mlm_head(copy.deepcopy(encoder))
    check_folder(encoder, folder / "saved")


def check_forward(encoder: Encoder) -> None:
    """Checks shapes, that padding changes nothing, and that gradients reach the weights."""
    rng = np.random.default_rng(0)
    words = rng.integers(5, encoder.format.vocab_size, (3, 12))
    rows = [encoder.format.wrap(row[:length]) for row, length in zip(words, (3, 12, 7), strict=True)]
    tokens = Tokens.pad(rows, encoder.format.pad_id)
    encoding = encoder(tokens)
    assert encoding.states.shape == (*tokens.ids.shape, encoder.state_dimension)
    assert encoding.sentence.shape == (3, encoder.dimension) and torch.equal(encoding.mask, tokens.mask)
    torch.testing.assert_close(encoder.vectors(tokens), encoding.sentence, atol=1e-5, rtol=0)
    assert encoder.sequence_features(encoding).shape == (3, encoder.state_dimension)
    for place, row in enumerate(rows):
        alone = encoder(Tokens.pad([row], encoder.format.pad_id))
        torch.testing.assert_close(alone.sentence[0], encoding.sentence[place], atol=1e-5, rtol=0)
        torch.testing.assert_close(alone.states[0], encoding.states[place, : len(row)], atol=1e-5, rtol=0)
    encoding.sentence.square().sum().backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in encoder.parameters())
    encoder.zero_grad()


def check_encode(encoder: Encoder) -> None:
    """Checks order, batches, mode, and that the tokenizer is left as it was."""
    backend = encoder.tokenizer.backend_tokenizer
    backend.enable_truncation(7)
    vectors = encoder.train().encode(SENTENCES)
    assert encoder.training and backend.truncation["max_length"] == 7
    backend.no_truncation()
    assert vectors.dtype == np.float32 and vectors.shape == (len(SENTENCES), encoder.dimension)
    limits: list[dict[str, Any]] = [{"batch_size": 2}, {"batch_tokens": 30}]
    for options in limits:
        np.testing.assert_allclose(encoder.eval().encode(SENTENCES, **options), vectors, atol=1e-5)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        np.testing.assert_allclose(encoder.encode(sentence), vector, atol=1e-5)
    if not encoder.format.prefix + encoder.format.suffix:
        assert not vectors[1].any()
    with pytest.raises(UserError):
        encoder.pool_by("avg")


def check_mlm_head(encoder: Encoder) -> None:
    """Checks that masked words can be predicted, or that the encoder says that it cannot."""
    try:
        encoder.add_mlm_head()
    except UnfitError:
        assert not encoder.has_mlm_head
        return
    before = encoder.encode(SENTENCES)
    logits = encoder.token_logits(torch.zeros(4, encoder.state_dimension))
    assert encoder.has_mlm_head and logits.shape == (4, encoder.format.vocab_size)
    np.testing.assert_array_equal(encoder.encode(SENTENCES), before)


def check_folder(encoder: Encoder, folder: Path) -> None:
    """Checks that a saved encoder opens with equal vectors, here and in sentence-transformers."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    vectors = encoder.encode(SENTENCES)
    encoder.save(folder)
    opened = encoders.load(folder)
    np.testing.assert_array_equal(opened.encode(SENTENCES), vectors)
    assert type(opened) is type(encoder) and opened.fingerprint() == encoder.fingerprint()
    assert (opened.format, opened.weights, opened.untrained) == (encoder.format, encoder.weights, False)
    assert opened.origin.startswith(f"continued from {folder}; before that: ") and encoder.origin in opened.origin
    if encoder.opens_elsewhere:
        theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        full = [sentence for sentence in SENTENCES if sentence]
        np.testing.assert_allclose(theirs.encode(full), vectors[[0, 2, 3, 4, 5]], atol=1e-5)
