"""The decoder that shares the encoder's weights: comparison with transformers', gradients, cost, refusals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from data.batch import Tokens
from data.errors import UnfitError
from encoders.transformer import Transformer
from objectives.tied_decoder import TiedDecoder
from tests.encoders import models

ROWS = [[20, 21, 22, 23, 24, 25], [40], [30, 31, 32]]


def build(family: str = "roberta") -> tuple[TiedDecoder, Transformer]:
    torch.manual_seed(0)
    encoder = models.tiny(family, pooling="cls", dropout=0.0)
    decoder = TiedDecoder(encoder)
    for weight in (*encoder.parameters(), *decoder.parameters()):
        torch.nn.init.normal_(weight, std=0.3)  # biases and gains too, so that each has an effect
    return decoder.double().eval(), encoder.double().eval()


def targets(encoder: Transformer) -> Tokens:
    return Tokens.pad([encoder.format.wrap(np.array(row)) for row in ROWS], encoder.format.pad_id)


def reference(decoder: TiedDecoder, encoder: Transformer) -> Any:
    """Returns transformers' decoder with an output layer and copies of all weights."""
    config = copy.deepcopy(encoder.model.config)
    config.is_decoder, config.add_cross_attention = True, True
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    weights = dict(encoder.model.state_dict())
    name = f"{model.base_model_prefix}.encoder.layer"
    for number, part in enumerate(decoder.cross_attention):
        weights |= {f"{name}.{number}.crossattention.{key}": value for key, value in part.state_dict().items()}
    model.load_state_dict(weights)
    return model


@pytest.mark.parametrize("family", ["roberta", "bert", "electra"])
def test_logits_equal_those_of_transformers_decoder_step_by_step(family: str) -> None:
    decoder, encoder = build(family)
    block = targets(encoder)
    vectors = torch.randn(len(ROWS), 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    logits = encoder.token_logits(decoder.states(encoder, vectors, block))
    model = reference(decoder, encoder)
    for row, length in enumerate(block.lengths.tolist()):
        for position in range(length):
            prefix = block.ids[row : row + 1, : position + 1]
            expected = model(input_ids=prefix, encoder_hidden_states=vectors[row].view(1, 1, -1), use_cache=False)
            torch.testing.assert_close(logits[row, position], expected.logits[0, -1])


def test_weights_are_shared_with_the_encoder() -> None:
    decoder, encoder = build()
    block = targets(encoder)
    assert {name.split(".")[0] for name, _ in decoder.named_parameters()} == {"cross_attention"}
    assert set(decoder.state_dict()) == {name for name, _ in decoder.named_parameters()}

    def total() -> Tensor:
        return decoder.states(encoder, encoder(block).sentence, block).square().sum()

    value = total()
    value.backward()
    layer = encoder.backbone.encoder.layer[0]
    query = layer.attention.self.query.weight
    assert all(weight.grad is not None for weight in (query, encoder.backbone.embeddings.word_embeddings.weight))
    # Central differences: the gradient includes both uses of the weight, by encoder and decoder.
    step, direction = 1e-6, torch.randn_like(query)
    with torch.no_grad():
        query += step * direction
        up = total()
        query -= 2 * step * direction
        down = total()
    assert query.grad is not None
    slope = float((query.grad * direction).sum())
    assert float((up - down) / (2 * step)) == pytest.approx(slope, rel=1e-5)


def test_its_dropout_is_that_of_the_encoder() -> None:
    torch.manual_seed(0)
    encoder = models.tiny("roberta", dropout=0.5)
    decoder = TiedDecoder(encoder)
    block = targets(encoder)
    vectors = torch.zeros(3, 32)
    assert torch.equal(decoder.eval().states(encoder, vectors, block), decoder.states(encoder, vectors, block))
    once, again = (decoder.train().states(encoder, vectors, block) for _ in range(2))
    assert not torch.allclose(once, again)
    assert not encoder.training


def test_vectors_and_states_of_different_widths_are_refused() -> None:
    encoder = models.tiny()
    encoder.dimension = 8
    with pytest.raises(UnfitError):
        TiedDecoder(encoder)
