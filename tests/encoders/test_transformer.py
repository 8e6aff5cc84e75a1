"""Transformers as encoders: states, tokens, heads, layers, dropout, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import encoders
from data.batch import Tokens
from data.errors import UnfitError, UserError
from encoders import BUNDLED, varlen
from encoders.transformer import Transformer
from tests.encoders.models import FAMILIES, SENTENCES, shape, tiny, tokens_of


@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_logits_equal_those_of_transformers_model(family: str) -> None:
    encoder = tiny(family)
    tokens = tokens_of(encoder)
    encoding = encoder(tokens)
    expected = encoder.model(input_ids=tokens.ids, attention_mask=tokens.mask.long()).logits
    torch.testing.assert_close(encoder.token_logits(encoding.states[tokens.mask]), expected[tokens.mask])


def test_format_wraps_as_the_tokenizer_does() -> None:
    encoder = tiny()
    content = encoder.tokenizer(SENTENCES[0], add_special_tokens=False)["input_ids"]
    wrapped = encoder.format.wrap(np.array(content))
    assert wrapped.tolist() == encoder.tokenizer(SENTENCES[0])["input_ids"]
    assert encoder.format.max_length == 64  # RoBERTa's position ids start at 2, so 64 of 66 are usable
    assert encoder(tokens_of(encoder, (64,))).states.shape == (1, 64, 32)


def test_segment_ids_reach_a_model_that_has_them() -> None:
    bert, roberta = tiny("bert"), tiny("roberta")
    for encoder, differs in ((bert, True), (roberta, False)):
        tokens = tokens_of(encoder)
        second = Tokens(tokens.ids, tokens.mask, tokens.lengths, type_ids=torch.ones_like(tokens.ids))
        assert torch.equal(encoder(tokens).sentence, encoder(second).sentence) is not differs


def test_an_added_head_is_tied_and_does_not_change_vectors(tmp_path: Path) -> None:
    headed = tiny("bert")
    headed.backbone.save_pretrained(tmp_path)
    headed.tokenizer.save_pretrained(tmp_path)
    encoder = Transformer(path=str(tmp_path))
    assert not encoder.has_mlm_head
    with pytest.raises(ValueError):
        encoder.token_logits(torch.zeros(1, 32))
    before = encoder.encode(SENTENCES)
    encoder.add_mlm_head()
    assert encoder.has_mlm_head and not encoder.training
    assert np.array_equal(encoder.encode(SENTENCES), before)
    embeddings = encoder.backbone.get_input_embeddings().weight
    assert encoder.model.get_output_embeddings().weight is embeddings
    encoder.token_logits(torch.randn(3, 32)).sum().backward()
    assert embeddings.grad is not None and embeddings.grad.abs().sum() > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_only_the_first_layers_can_be_loaded(family: str, layers: int, tmp_path: Path) -> None:
    tiny(family).save(tmp_path / "full")
    full, cut = Transformer.load(tmp_path / "full"), encoders.load(tmp_path / "full", layers=layers)
    tokens = full.tokenizer(SENTENCES[:1], return_tensors="pt")
    with torch.no_grad():
        states = full.model.base_model(**tokens, output_hidden_states=True).hidden_states[layers]
    np.testing.assert_allclose(cut.encode(SENTENCES[:1])[0], states[0].mean(dim=0), atol=1e-6)
    trained = Transformer(path=str(tmp_path / "full"), layers=layers)
    assert np.array_equal(trained.encode(SENTENCES), cut.encode(SENTENCES))
    cut.save(tmp_path / "cut")
    np.testing.assert_allclose(encoders.load(tmp_path / "cut").encode(SENTENCES), cut.encode(SENTENCES), atol=1e-6)
    assert (layers == 2) == (cut.fingerprint() == full.fingerprint())


@pytest.mark.parametrize("family", ["roberta", "bert", "distilbert"])
def test_dropout_is_set_in_every_layer(family: str) -> None:
    encoder = tiny(family, dropout=0.25)
    rates = [module.p for module in encoder.modules() if isinstance(module, torch.nn.Dropout)]
    assert rates and set(rates) == {0.25}


@pytest.mark.parametrize(
    ("family", "settings", "equal"),
    [
        *((family, {}, True) for family in sorted(varlen.FAMILIES - {"modernbert"})),
        ("modernbert", {"layer_types": "full_attention"}, True),
        ("modernbert", {"local_attention": 4}, False),
    ],
    ids=str,
)
def test_the_full_attention_mask_gives_the_same_states(family: str, settings: dict[str, Any], equal: bool) -> None:
    encoder = tiny(family, shape=shape(family, **settings), attention="sdpa")
    tokens = tokens_of(encoder, (5, 20, 3))
    mask = tokens.mask[:, None, None, :].expand(-1, -1, tokens.mask.shape[1], -1)
    states = encoder.backbone(input_ids=tokens.ids, attention_mask=mask).last_hidden_state
    same = torch.allclose(states[tokens.mask], encoder(tokens).states[tokens.mask], atol=1e-5)
    assert same == equal == encoder.packing.sees_all


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        ("encoder.path", {"path": "somewhere"}),
        ("encoder.shape", {"shape": None}),
        ("encoder.name", {"weights": "pretrained"}),
        ("encoder.shape.model_type", {"shape": {"model_type": "robert"}}),
        ("encoder.shape.hiden", {"shape": {"model_type": "roberta", "hiden": 8}}),
        ("encoder.shape", {"shape": {"model_type": "roberta", "hidden_size": 7}}),
        ("encoder.max_length=65", {"max_length": 65}),
        ("encoder.shape.hidden_size=64", {"name": BUNDLED, "weights": "auto", "shape": {"hidden_size": 64}}),
    ],
    ids=str,
)
def test_wrong_arguments_name_their_key(key: str, arguments: dict[str, Any]) -> None:
    tokenizer = tiny().tokenizer
    with pytest.raises(UserError) as error:
        Transformer(**{"weights": "random", "shape": shape(), "tokenizer": tokenizer, **arguments})
    assert error.value.key == key


def test_a_causal_model_has_no_head_for_masked_words() -> None:
    encoder = tiny(
        shape={"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, pooling="last"
    )
    assert not encoder.has_mlm_head
    with pytest.raises(UnfitError):
        encoder.add_mlm_head()
