from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

import encoders
from data.batch import Tokens
from encoders import base, models
from encoders.base import Encoding
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, minilm, shape, texts, tiny


def _tokens(encoder: Transformer, lengths: tuple[int, ...] = (5, 9, 3)) -> Tokens:
    rng = np.random.default_rng(0)
    rows = [encoder.format.wrap(rng.integers(5, encoder.format.vocab_size, length - 2)) for length in lengths]
    return Tokens.pad(rows, encoder.format.pad_id)


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_logits_are_those_of_the_whole_model(family: str) -> None:
    encoder = tiny(family)
    tokens = _tokens(encoder)
    encoding = encoder(tokens)
    assert encoding.states.shape == (3, 9, encoder.state_dimension)
    assert encoding.sentence.shape == (3, encoder.dimension)
    whole = encoder.model(input_ids=tokens.ids, attention_mask=tokens.mask.long()).logits
    torch.testing.assert_close(encoder.token_logits(encoding.states[tokens.mask]), whole[tokens.mask])


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing(family: str) -> None:
    encoder = tiny(family)
    tokens = _tokens(encoder)
    for row in range(3):
        alone = encoder(tokens.rows(torch.tensor([row]))).sentence
        torch.testing.assert_close(alone[0], encoder(tokens).sentence[row], atol=1e-6, rtol=0)


def test_vectors_are_those_of_one_pass_with_less_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "WORTH", 8)
    encoder = tiny()
    lengths = (5, 20, 3, 4, 20, 6, 11, 3, 12, 21)
    tokens = _tokens(encoder, lengths)
    weights = list(encoder.parameters())
    whole = encoder(tokens).sentence
    aim = torch.randn_like(whole)
    wanted = torch.autograd.grad((whole * aim).sum(), weights, allow_unused=True)
    areas: list[int] = []
    forward = encoder.forward

    def counting(part: Tokens) -> base.Encoding:
        areas.append(part.ids.numel())
        return forward(part)

    monkeypatch.setattr(encoder, "forward", counting)
    vectors = encoder.vectors(tokens)
    torch.testing.assert_close(vectors, whole, atol=1e-6, rtol=0)
    assert len(areas) > 2 and sum(areas) < 0.6 * tokens.ids.numel()
    found = torch.autograd.grad((vectors * aim).sum(), weights, allow_unused=True)
    for given, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(given, right, atol=1e-5, rtol=1e-4)
    areas.clear()
    encoder.vectors(_tokens(encoder, (7, 7, 7)))
    assert areas == [21]  # nothing to spare


@pytest.mark.parametrize("family", sorted({*models.SEE_ALL, "modernbert"}))
def test_the_gpus_mask_gives_the_same_states(family: str) -> None:
    window = {"local_attention": 4} if family == "modernbert" else {}
    encoder = tiny(family, shape=shape(family, **window), attention="sdpa")
    tokens = _tokens(encoder, (5, 20, 3))
    whole = models.full_mask(tokens.mask)
    states = encoder.backbone(input_ids=tokens.ids, attention_mask=whole).last_hidden_state
    same = torch.allclose(states[tokens.mask], encoder(tokens).states[tokens.mask], atol=1e-5)
    assert same == (family in models.SEE_ALL)


def test_format_wraps_as_the_tokenizer_does() -> None:
    encoder = tiny()
    content = encoder.tokenizer(SENTENCES[0], add_special_tokens=False)["input_ids"]
    wrapped = encoder.format.wrap(np.array(content))
    assert wrapped.tolist() == encoder.tokenizer(SENTENCES[0])["input_ids"]
    assert encoder.format.mask_id == encoder.tokenizer.mask_token_id
    assert encoder.format.special_ids == {0, 1, 2, 3, 4}
    assert encoder.format.max_length == 64  # of RoBERTa's 66 positions two are taken by its padding token
    assert encoder(_tokens(encoder, (64,))).states.shape == (1, 64, 32)


def test_encode_keeps_the_order_and_equals_one_by_one() -> None:
    encoder = tiny()
    vectors = encoder.encode(SENTENCES * 7, batch_tokens=100)
    assert vectors.dtype == np.float32 and vectors.shape == (42, 32)
    alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(vectors, np.tile(alone, (7, 1)), atol=1e-5)


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


def test_encode_of_nothing_of_normalized_and_of_a_string() -> None:
    encoder = tiny()
    assert encoder.encode([]).shape == (0, 32)
    vectors = encoder.encode(SENTENCES)
    np.testing.assert_allclose(
        encoder.encode(SENTENCES, normalize=True),
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        atol=1e-6,
    )
    with pytest.raises(ValueError, match=r"encode takes a list of sentences\. Got None among them\."):
        encoder.encode(["A sentence.", None])  # type: ignore[list-item]
    np.testing.assert_array_equal(encoder.encode(one for one in SENTENCES), vectors)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"encode takes a list of sentences\. Got one string instead\."):
        encoder.encode("one sentence")
    with pytest.raises(ValueError, match=r"batch_tokens must be at least 1\. Got 0 instead\."):
        encoder.encode(SENTENCES, batch_tokens=0)


def test_encode_runs_without_dropout_and_restores_the_mode() -> None:
    encoder = tiny(dropout=0.5)
    expected = encoder.encode(SENTENCES)
    assert not any(module.training for module in encoder.modules())
    encoder.train()
    assert np.array_equal(encoder.encode(SENTENCES, progress=True), expected)
    assert all(module.training for module in encoder.modules())
    with torch.no_grad():
        assert not torch.equal(encoder(_tokens(encoder)).sentence, encoder(_tokens(encoder)).sentence)


def test_encode_bounds_padded_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    seen = []
    forward = Transformer.forward

    def count(self: Transformer, tokens: Tokens) -> Encoding:
        seen.append(tokens.ids.numel())
        return forward(self, tokens)

    monkeypatch.setattr(Transformer, "forward", count)
    encoder.encode(SENTENCES * 5, batch_tokens=80)
    assert max(seen) <= 80 and len(seen) > 3


@pytest.mark.parametrize("family", ["roberta", "bert", "distilbert"])
def test_dropout_is_set_everywhere(family: str) -> None:
    encoder = tiny(family, dropout=0.25)
    inside = [module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)]
    assert inside and set(inside) == {0.25}


def test_flops_follow_the_weights() -> None:
    encoder = tiny()
    layer = 4 * 32 * 32 + 2 * 32 * 64
    assert encoder.forward_flops(10, 7.0) == 10 * (2 * 2 * layer + 4 * 2 * 7 * 32)
    assert encoder.head_flops(10) == 2 * 10 * (32 * 32 + 32 * len(encoder.tokenizer))
    albert, bert = tiny("albert"), tiny("bert")
    assert albert.forward_flops(1, 0) == bert.forward_flops(1, 0) + 2 * 16 * 32


def test_segment_ids_reach_a_model_that_has_them() -> None:
    bert, roberta = tiny("bert"), tiny("roberta")
    for encoder, differs in ((bert, True), (roberta, False)):
        tokens = _tokens(encoder)
        second = Tokens(tokens.ids, tokens.mask, tokens.lengths, type_ids=torch.ones_like(tokens.ids))
        assert torch.equal(encoder(tokens).sentence, encoder(second).sentence) is not differs


def test_random_weights_follow_torchs_seed() -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(next(tiny().backbone.encoder.parameters()))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_minilm_equals_sentence_transformers() -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = encoders.load(minilm())
    assert (encoder.dimension, encoder.format.max_length, encoder.weights) == (384, 256, "pretrained")
    assert not encoder.has_mlm_head
    texts = [*SENTENCES, SENTENCES[3] * 5]
    theirs = sentence_transformers.SentenceTransformer(str(minilm()), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.encode(texts), theirs, atol=1e-5)


def test_a_head_is_added_tied_and_leaves_the_vectors(tmp_path: Path) -> None:
    headed = tiny("bert")
    headed.backbone.save_pretrained(tmp_path)
    headed.tokenizer.save_pretrained(tmp_path)
    encoder = Transformer(path=str(tmp_path))
    assert not encoder.has_mlm_head and encoder.head_flops(1) == 0
    with pytest.raises(ValueError, match="has no MLM head"):
        encoder.token_logits(torch.zeros(1, 32))
    before = encoder.encode(SENTENCES)
    encoder.add_mlm_head()
    assert encoder.has_mlm_head and not encoder.training
    assert np.array_equal(encoder.encode(SENTENCES), before)
    with_pooler = Transformer(path=str(tmp_path))
    with_pooler.add_pooler()
    pooled = with_pooler.pooled(with_pooler(_tokens(with_pooler))).detach()
    with_pooler.add_mlm_head()
    torch.testing.assert_close(with_pooler.pooled(with_pooler(_tokens(with_pooler))), pooled)
    embeddings = encoder.backbone.get_input_embeddings().weight
    assert encoder.model.get_output_embeddings().weight is embeddings
    encoder.token_logits(torch.randn(3, 32)).sum().backward()
    assert embeddings.grad is not None and embeddings.grad.abs().sum() > 0


def test_pretrained_head_is_used(tmp_path: Path) -> None:
    encoder = tiny("roberta")
    encoder.save(tmp_path / "encoder")
    again = Transformer(path=str(tmp_path / "encoder"))
    assert again.has_mlm_head
    states = torch.randn(4, 32)
    torch.testing.assert_close(again.token_logits(states), encoder.token_logits(states))
    reference = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder")
    torch.testing.assert_close(again.token_logits(states), reference.lm_head(states))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "encoder.name, encoder.path or encoder.shape must be given. Got none of them."),
        ({"pooling": "median"}, "encoder.pooling must be 'mean', 'cls', 'max' or 'last'. Got 'median' instead."),
        ({"dropout": 1.0}, "encoder.dropout must be at least 0 and below 1. Got 1.0 instead."),
        ({"vocab_size": 260}, r"encoder\.vocab_size must be at least 261\. Got 260 instead\."),
        ({"max_length": 2}, "encoder.max_length must be at least 8. Got 2 instead."),
        ({"weights": "good"}, "encoder.weights must be 'auto', 'pretrained' or 'random'. Got 'good' instead."),
        ({"weights": "random"}, "encoder.shape must say how large a random model is to be."),
        ({"shape": {"model_type": "robberta"}}, "encoder.shape.model_type must be a transformers family."),
        (
            {"shape": shape(hiden_size=8)},
            r"RobertaConfig has no such argument; did you mean hidden_size\?",
        ),
        ({"shape": shape(hidden_size=33)}, "encoder.shape or encoder.attention: The hidden size .33."),
        ({"shape": shape(), "max_length": 65}, "encoder.max_length must be at most 64, the model's limit."),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transformer(**{"texts": texts, "vocab_size": 400, **arguments})
