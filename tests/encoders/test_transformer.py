"""Transformers as encoders: states, padding, tokens, heads, cost, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

import encoders
from data.batch import Tokens
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, minilm, tiny, tokens_of


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_logits_equal_those_of_transformers_model(family: str) -> None:
    encoder = tiny(family)
    tokens = tokens_of(encoder)
    encoding = encoder(tokens)
    assert encoding.states.shape == (3, 9, encoder.state_dimension)
    assert encoding.sentence.shape == (3, encoder.dimension)
    expected = encoder.model(input_ids=tokens.ids, attention_mask=tokens.mask.long()).logits
    torch.testing.assert_close(encoder.token_logits(encoding.states[tokens.mask]), expected[tokens.mask])


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_does_not_change_states(family: str) -> None:
    encoder = tiny(family)
    tokens = tokens_of(encoder)
    for row in range(3):
        alone = encoder(tokens.rows(torch.tensor([row]))).sentence
        torch.testing.assert_close(alone[0], encoder(tokens).sentence[row], atol=1e-6, rtol=0)


def test_format_wraps_as_the_tokenizer_does() -> None:
    encoder = tiny()
    content = encoder.tokenizer(SENTENCES[0], add_special_tokens=False)["input_ids"]
    wrapped = encoder.format.wrap(np.array(content))
    assert wrapped.tolist() == encoder.tokenizer(SENTENCES[0])["input_ids"]
    assert encoder.format.mask_id == encoder.tokenizer.mask_token_id
    assert encoder.format.special_ids == {0, 1, 2, 3, 4}
    assert encoder.format.max_length == 64  # RoBERTa's position ids start at 2, so 64 of 66 are usable
    assert encoder(tokens_of(encoder, (64,))).states.shape == (1, 64, 32)


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
        tokens = tokens_of(encoder)
        second = Tokens(tokens.ids, tokens.mask, tokens.lengths, type_ids=torch.ones_like(tokens.ids))
        assert torch.equal(encoder(tokens).sentence, encoder(second).sentence) is not differs


def test_random_weights_follow_torchs_seed() -> None:
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(next(tiny().backbone.encoder.parameters()))
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_minilm_equals_sentence_transformers() -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = encoders.load(minilm())
    assert (encoder.dimension, encoder.format.max_length, encoder.weights) == (384, 256, "own")
    assert not encoder.has_mlm_head
    sentences = [*SENTENCES, SENTENCES[3] * 5]
    theirs = sentence_transformers.SentenceTransformer(str(minilm()), device="cpu").encode(sentences)
    np.testing.assert_allclose(encoder.encode(sentences), theirs, atol=1e-5)


def test_an_added_head_is_tied_and_does_not_change_vectors(tmp_path: Path) -> None:
    headed = tiny("bert")
    headed.backbone.save_pretrained(tmp_path)
    headed.tokenizer.save_pretrained(tmp_path)
    encoder = Transformer(path=str(tmp_path))
    assert not encoder.has_mlm_head and encoder.head_flops(1) == 0
    with pytest.raises(ValueError):
        encoder.token_logits(torch.zeros(1, 32))
    before = encoder.encode(SENTENCES)
    encoder.add_mlm_head()
    assert encoder.has_mlm_head and not encoder.training
    assert np.array_equal(encoder.encode(SENTENCES), before)
    with_pooler = Transformer(path=str(tmp_path))
    with_pooler.add_pooler()
    pooled = with_pooler.sequence_features(with_pooler(tokens_of(with_pooler))).detach()
    with_pooler.add_mlm_head()
    torch.testing.assert_close(with_pooler.sequence_features(with_pooler(tokens_of(with_pooler))), pooled)
    embeddings = encoder.backbone.get_input_embeddings().weight
    assert encoder.model.get_output_embeddings().weight is embeddings
    encoder.token_logits(torch.randn(3, 32)).sum().backward()
    assert embeddings.grad is not None and embeddings.grad.abs().sum() > 0


def test_a_pretrained_head_is_used(tmp_path: Path) -> None:
    encoder = tiny("roberta")
    encoder.save(tmp_path / "encoder")
    reloaded = Transformer(path=str(tmp_path / "encoder"))
    assert reloaded.has_mlm_head
    states = torch.randn(4, 32)
    torch.testing.assert_close(reloaded.token_logits(states), encoder.token_logits(states))
    reference = AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder", variant="mlm")
    torch.testing.assert_close(reloaded.token_logits(states), reference.lm_head(states))
