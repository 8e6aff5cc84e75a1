"""BERT's pooler: found in weights, made, exported, read as transformers reads it; refused where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

import encoders
from data.batch import Tokens
from data.errors import UserError
from encoders.transformer import Transformer
from tests.encoders.models import SENTENCES, minilm, tiny


def theirs(folder: Path, encoder: Transformer, sentence: str) -> np.ndarray:
    """What transformers' own model gives as the output of its pooler."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**encoder.tokenizer([sentence], return_tensors="pt")).pooler_output[0].numpy()


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_a_new_pooler_is_exported_and_used_by_evaluation(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = tiny(family, pooling="cls")
    assert encoder.poolings == ("mean", "cls", "max", "last")
    before = encoder.encode(SENTENCES)
    encoder.add_pooler()
    pooler = encoder.backbone.pooler
    encoder.add_pooler()
    assert encoder.backbone.pooler is pooler  # it is there already
    assert np.array_equal(encoder.encode(SENTENCES), before)
    tokens = Tokens.pad([encoder.format.wrap(np.arange(7, 12))], encoder.format.pad_id)
    encoding = encoder(tokens)
    dense = pooler if family == "albert" else pooler.dense
    expected = torch.tanh(encoding.states[:, 0] @ dense.weight.T + dense.bias)
    torch.testing.assert_close(encoder.pooled(encoding), expected)

    encoder.save(tmp_path / "encoder")
    again = encoders.load(tmp_path / "encoder", pooling="pooler")
    assert isinstance(again, Transformer) and again.pooling == "pooler"
    vector = again.encode([SENTENCES[0]])[0]
    np.testing.assert_allclose(vector, theirs(tmp_path / "encoder", again, SENTENCES[0]), atol=1e-5)
    np.testing.assert_allclose(encoders.load(tmp_path / "encoder").encode(SENTENCES), before, atol=1e-6)
    with pytest.raises(UserError, match="pooling=pooler is for evaluation only"):
        again.save(tmp_path / "other")


def test_the_pooler_of_published_weights_is_read_where_it_is_asked_for() -> None:
    encoder = encoders.load(minilm())
    assert isinstance(encoder, Transformer) and "pooler" in encoder.poolings
    assert not any("pooler" in name for name in encoder.state_dict())
    pooled = encoders.load(minilm(), pooling="pooler")
    assert isinstance(pooled, Transformer) and pooled.normalize
    vector = theirs(minilm(), pooled, SENTENCES[0])
    np.testing.assert_allclose(pooled.encode([SENTENCES[0]])[0], vector / np.linalg.norm(vector), atol=1e-5)


def test_a_family_without_one_gives_the_first_state(tmp_path: Path) -> None:
    encoder = tiny("distilbert")
    encoder.add_pooler()
    tokens = Tokens.pad([encoder.format.wrap(np.arange(7, 12))], encoder.format.pad_id)
    encoding = encoder(tokens)
    assert torch.equal(encoder.pooled(encoding), encoding.states[:, 0])
    assert "pooler" not in encoder.poolings and encoder.pooled_dimension == 32


@pytest.mark.parametrize("family", ["roberta", "distilbert"])
def test_weights_without_one_are_refused(family: str, tmp_path: Path) -> None:
    tiny(family).save(tmp_path / "encoder")
    with pytest.raises(UserError) as error:
        encoders.load(tmp_path / "encoder", pooling="pooler")
    assert "has no trained pooler" in str(error.value) and "\n" not in str(error.value)


def test_pooling_is_taken_by_name() -> None:
    encoder = tiny(pooling="mean")
    encoder.pool_by("cls")
    assert np.array_equal(encoder.encode(SENTENCES[:1])[0], _first_state(encoder, SENTENCES[0]))
    with pytest.raises(ValueError, match=r"pooling must be one of mean, cls, max, last\. Got median instead\."):
        encoder.pool_by("median")


@torch.no_grad()
def _first_state(encoder: Transformer, sentence: str) -> np.ndarray:
    ids = np.array(encoder.tokenizer(sentence)["input_ids"])
    return encoder(Tokens.pad([ids], encoder.format.pad_id)).states[0, 0].numpy()
