"""``encode``: order, batches, threads, arguments, and the similarity of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Regex, pre_tokenizers, processors

from data.batch import Tokens
from data.errors import UserError
from encoders import inference
from encoders.api import Encoding
from encoders.base import token_format
from encoders.transformer import Transformer
from tests.encoders import bilstms
from tests.encoders.models import SENTENCES, tiny, tokens_of


def test_encode_on_several_threads_gives_the_vectors_of_one_and_leaves_their_number() -> None:
    encoder = tiny()
    before = torch.get_num_threads()
    vectors = {}
    try:
        for threads in (1, 3, 2):
            torch.set_num_threads(threads)
            vectors[threads] = encoder.encode(SENTENCES * 9, batch_tokens=60)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.abs(vectors[1] - vectors[2]).max() < 1e-6 and np.abs(vectors[1] - vectors[3]).max() < 1e-6


def test_encoding_no_sentences_gives_an_empty_array() -> None:
    assert tiny().encode([]).shape == (0, 32)
    assert tiny().encode([], convert_to_tensor=True).shape == (0, 32)


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


def test_a_single_string_gives_a_single_vector() -> None:
    encoder = tiny()
    for options in ({}, {"normalize_embeddings": True}, {"convert_to_tensor": True}):
        single, batch = encoder.encode("A dog.", **options), encoder.encode(["A dog."], **options)
        assert single.shape == (32,) and type(single) is type(batch) and bool((single == batch[0]).all())


def test_batches_have_at_most_batch_size_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    sizes: list[int] = []
    forward = encoder.forward

    def counting(tokens: Tokens) -> Encoding:
        sizes.append(len(tokens.ids))
        return forward(tokens)

    monkeypatch.setattr(encoder, "forward", counting)
    encoder.encode(SENTENCES * 5, batch_size=4)
    assert sum(sizes) == 30 and max(sizes) == 4


def test_wrong_arguments_of_encode_are_refused() -> None:
    with pytest.raises(ValueError):
        tiny().encode(["A sentence.", None])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        tiny().encode(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        tiny().encode(SENTENCES, batch_tokens=0)
    with pytest.raises(ValueError):
        tiny().encode(SENTENCES, batch_size=-1)


def test_similarity_is_the_cosine() -> None:
    encoder = tiny()
    first, second = encoder.encode(SENTENCES[:3]), encoder.encode(SENTENCES[3:5])
    found = encoder.similarity(first, torch.from_numpy(second))
    assert found.shape == (3, 2)
    for row in range(3):
        for column in range(2):
            lengths = np.linalg.norm(first[row]) * np.linalg.norm(second[column])
            assert float(found[row, column]) == pytest.approx(first[row] @ second[column] / lengths, abs=1e-6)
    assert float(encoder.similarity(first[0], first[0])) == pytest.approx(1)


def test_encode_runs_without_dropout_and_restores_the_mode() -> None:
    encoder = tiny(dropout=0.5)
    expected = encoder.encode(SENTENCES)
    assert not any(module.training for module in encoder.modules())
    encoder.train()
    assert np.array_equal(encoder.encode(SENTENCES, show_progress_bar=True), expected)
    assert all(module.training for module in encoder.modules())
    with torch.no_grad():
        assert not torch.equal(encoder(tokens_of(encoder)).sentence, encoder(tokens_of(encoder)).sentence)


def test_encode_bounds_padded_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    sizes = []
    forward = Transformer.forward

    def count(self: Transformer, tokens: Tokens) -> Encoding:
        sizes.append(tokens.ids.numel())
        return forward(self, tokens)

    monkeypatch.setattr(Transformer, "forward", count)
    encoder.encode(SENTENCES * 5, batch_tokens=80)
    assert max(sizes) <= 80 and len(sizes) > 3


def test_vectors_that_are_not_finite_are_counted() -> None:
    encoder = bilstms.tiny()
    with torch.no_grad():
        encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids("the")] = float("nan")
    with pytest.raises(UserError):
        encoder.encode(["dog", "the dog", "on"])


def test_a_tokenizer_that_cannot_split_the_text_is_one_line() -> None:
    encoder = tiny()
    encoder.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(x+x+)+y"), "isolated")
    with pytest.raises(UserError) as error:
        encoder.encode(["x" * 40])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("template", [True, False])
def test_batches_have_the_tokens_of_the_tokenizer_itself(side: str, template: bool) -> None:
    encoder = tiny(max_length=8)
    tokenizer = encoder.tokenizer
    if not template:
        tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        encoder.format = token_format(tokenizer, 8)
    tokenizer.truncation_side = side
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
