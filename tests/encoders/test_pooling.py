"""Poolings against a loop and hand-computed values; poolers of BERT-like models: added, saved, loaded, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel

import encoders
from data.batch import Tokens
from data.errors import UserError
from encoders.hub import CHECKPOINTS
from encoders.pooling import POOLINGS, pool
from encoders.transformer import Transformer
from tests.encoders.models import SENTENCES, minilm, tiny

LENGTHS = [3, 1, 5]


def _example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    states = torch.randn(3, 5, 4, dtype=dtype, generator=torch.Generator().manual_seed(1))
    return states, torch.arange(5) < torch.tensor(LENGTHS)[:, None]


def _naive(states: Tensor, how: str) -> Tensor:
    rows = []
    for row, length in zip(states, LENGTHS, strict=True):
        tokens = [row[position] for position in range(length)]
        rows.append(
            {
                "mean": sum(tokens[1:], tokens[0]) / length,
                "cls": tokens[0],
                "max": torch.stack(tokens).max(dim=0).values,
                "last": tokens[-1],
            }[how]
        )
    return torch.stack(rows)


@pytest.mark.parametrize("how", POOLINGS)
def test_pooling_equals_a_loop_over_real_tokens(how: str) -> None:
    states, mask = _example()
    torch.testing.assert_close(pool(states, mask, how), _naive(states, how))


@pytest.mark.parametrize("how", POOLINGS)
def test_padding_has_no_influence_and_no_gradient(how: str) -> None:
    states, mask = _example()
    changed = torch.where(mask.unsqueeze(-1), states, 1e6).requires_grad_()
    vectors = pool(changed, mask, how)
    assert torch.equal(vectors, pool(states, mask, how))
    vectors.sum().backward()
    assert changed.grad is not None and not changed.grad[~mask].any()


def test_poolings_solved_by_hand() -> None:
    states = torch.tensor([[[1.0, 8.0], [3.0, -2.0], [100.0, 100.0]]])
    mask = torch.tensor([[True, True, False]])
    expected = {"mean": [2.0, 3.0], "cls": [1.0, 8.0], "max": [3.0, 8.0], "last": [3.0, -2.0]}
    for how, vector in expected.items():
        assert pool(states, mask, how).tolist() == [vector]


def test_mean_of_half_precision_is_summed_in_float32() -> None:
    states, mask = torch.full((1, 4096, 1), 1.01, dtype=torch.bfloat16), torch.ones(1, 4096, dtype=torch.bool)
    mean = pool(states, mask, "mean")
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean.item(), states[0, 0, 0].item())


@pytest.mark.parametrize("how", ["mean", "cls", "last"])
def test_gradcheck(how: str) -> None:
    states, mask = _example()
    assert torch.autograd.gradcheck(lambda value: pool(value, mask, how), states.requires_grad_())


def test_the_gradient_of_a_maximum_goes_to_one_real_token() -> None:
    states = torch.tensor([[[2.0, 1.0], [2.0, 5.0], [9.0, 9.0]], [[4.0, 4.0]] * 3], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    pool(states, mask, "max").backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert states.grad is not None
    assert states.grad.tolist() == [[[1, 0], [0, 2], [0, 0]], [[3, 4], [0, 0], [0, 0]]]


def pooler_of_transformers(folder: Path, encoder: Transformer, sentence: str) -> np.ndarray:
    """Returns the pooler's output for ``sentence``, computed by transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**encoder.tokenizer([sentence], return_tensors="pt")).pooler_output[0].numpy()


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_a_new_pooler_is_exported_and_used_by_evaluation(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = tiny(family, pooling="cls")
    assert encoder.poolings == ("mean", "cls", "max", "last", "first_last")
    before = encoder.encode(SENTENCES)
    encoder.add_pooler()
    pooler = encoder.backbone.pooler
    tokens = Tokens.pad([encoder.format.wrap(np.arange(7, 12))], encoder.format.pad_id)
    encoding = encoder(tokens)
    dense = pooler if family == "albert" else pooler.dense
    expected = torch.tanh(encoding.states[:, 0] @ dense.weight.T + dense.bias)
    torch.testing.assert_close(encoder.sequence_features(encoding), expected)

    encoder.save(tmp_path / "encoder")
    reloaded = encoders.load(tmp_path / "encoder", pooling="pooler")
    assert isinstance(reloaded, Transformer) and reloaded.pooling == "pooler"
    vector = reloaded.encode([SENTENCES[0]])[0]
    expected_vector = pooler_of_transformers(tmp_path / "encoder", reloaded, SENTENCES[0])
    np.testing.assert_allclose(vector, expected_vector, atol=1e-5)
    with pytest.raises(UserError):
        reloaded.save(tmp_path / "again")
    np.testing.assert_allclose(encoders.load(tmp_path / "encoder").encode(SENTENCES), before, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert", "roberta", "modernbert"])
def test_first_and_last_states_are_averaged(family: str, tmp_path: Path) -> None:
    folder = CHECKPOINTS / "declutr-mini" if family == "modernbert" else tmp_path / "encoder"
    if family != "modernbert":
        tiny(family).save(folder)
    encoder: Any = encoders.load(folder, pooling="first_last")
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        inputs = encoder.tokenizer(SENTENCES[0], return_tensors="pt")
        states = model(**inputs, output_hidden_states=True).hidden_states
    embedded = (states[0] + states[-1])[0].mean(dim=0) / 2
    np.testing.assert_allclose(encoder.encode(SENTENCES)[0], embedded, atol=1e-5)
    assert not encoder.has_mlm_head
    with pytest.raises(UserError):
        encoder.save(tmp_path / "again")
    embeddings, same = (encoders.load(folder, layers=0, pooling=how) for how in ("first_last", "mean"))
    np.testing.assert_allclose(embeddings.encode("a dog"), same.encode("a dog"), atol=1e-6)


def test_the_pooler_of_published_weights_is_opened() -> None:
    pooled = encoders.load(minilm(), pooling="pooler")
    assert isinstance(pooled, Transformer) and pooled.normalize
    vector = pooler_of_transformers(minilm(), pooled, SENTENCES[0])
    np.testing.assert_allclose(pooled.encode([SENTENCES[0]])[0], vector / np.linalg.norm(vector), atol=1e-5)
