"""``encode``: order, batches, threads, arguments, and the similarity of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from data.batch import Tokens
from data.errors import UserError
from encoders import inference
from tests.encoders import bilstms
from tests.encoders.models import SENTENCES, tiny


def test_encode_on_several_threads_gives_the_vectors_of_one_and_leaves_their_number() -> None:
    encoder, before = tiny(), torch.get_num_threads()
    vectors = []
    for threads in (1, 3, before):
        torch.set_num_threads(threads)
        vectors.append(encoder.encode(SENTENCES * 9, batch_tokens=60))
        assert torch.get_num_threads() == threads
    assert np.ptp(vectors, axis=0).max() < 1e-6


def test_encode_takes_the_arguments_of_sentence_transformers() -> None:
    encoder = tiny()
    vectors = encoder.encode(SENTENCES)
    normalised = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(SENTENCES, normalize_embeddings=True), normalised, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(text for text in SENTENCES), vectors)  # type: ignore[arg-type]
    tensor = encoder.encode(SENTENCES, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and torch.equal(tensor, torch.from_numpy(vectors))
    np.testing.assert_allclose(encoder.encode(SENTENCES, batch_size=2), vectors, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(SENTENCES, show_progress_bar=None), vectors)
    assert encoder.encode([]).shape == (0, 32) and encoder.encode(SENTENCES[0]).shape == (32,)


def test_encode_bounds_padded_tokens() -> None:
    encoder, sizes = tiny(), []
    encoder.register_forward_pre_hook(lambda _, arguments: sizes.append(arguments[0].ids.numel()))
    encoder.encode(SENTENCES * 5, batch_tokens=80)
    assert max(sizes) <= 80 and len(sizes) > 3


def test_values_that_are_not_finite_or_no_texts_are_refused() -> None:
    encoder = bilstms.tiny()
    with torch.no_grad():
        encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids("the")] = float("nan")
    wrong = {"encode": ["dog", "the dog"], "sentences[1]": ["dog", None], "sentences[0]": [["a", "b"]]}
    for key, texts in {**wrong, "sentences[2]": ["a", "b", "\ud800"]}.items():
        with pytest.raises(UserError) as error:
            encoder.encode(texts)
        assert error.value.key == key


def test_batches_have_the_tokens_of_the_tokenizer_itself() -> None:
    encoder = tiny(max_length=8)
    tokenizer = encoder.tokenizer
    expected = {
        tuple(ids) for ids in tokenizer([*filter(None, SENTENCES)], truncation=True, max_length=8)["input_ids"]
    }
    rows: set[tuple[int, ...]] = set()

    def record(tokens: Tokens) -> torch.Tensor:
        assert torch.equal(tokens.mask.sum(1), tokens.lengths)
        rows.update(tuple(ids[mask].tolist()) for ids, mask in zip(tokens.ids, tokens.mask, strict=True))
        return torch.zeros(len(tokens), 3)

    inference.encode(
        [*filter(None, SENTENCES)], record, tokenizer, encoder.format, dimension=3, device=torch.device("cpu")
    )
    assert rows == expected
