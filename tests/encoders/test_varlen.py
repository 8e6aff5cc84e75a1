"""The packed forward pass equals the padded one on a CPU; the GPU's kernel has valid arguments and gradients."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface, AutoModel

from data.batch import Tokens
from encoders import varlen
from encoders.transformer import Transformer
from tests.encoders.models import shape, tiny

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
LENGTHS = (5, 40, 3, 0, 11, 24)  # more tokens in total than the models have positions
OWN_SIZES: dict[str, dict[str, Any]] = {
    "camembert": {"max_position_embeddings": 66},
    "electra": {"embedding_size": 16},
    "modernbert": {"local_attention": 80},  # half of it on each side
    "mpnet": {"max_position_embeddings": 66},
    "xlm-roberta": {"max_position_embeddings": 66},
}
WITH_SEGMENTS = ("albert", "bert", "electra")


def packing_encoder(family: str = "roberta", *, dropout: float = 0.0, **sizes: Any) -> Transformer:
    """A tiny encoder that packs rows on a CPU too."""
    encoder = tiny(family, shape=shape(family, **OWN_SIZES.get(family, {}) | sizes), dropout=dropout)
    encoder.packing.forced = True
    return encoder


def padding_copy(encoder: Transformer) -> Transformer:
    """A copy of the encoder that pads rows."""
    copied = copy.deepcopy(encoder)
    copied.packing.forced = False
    return copied


def tokens_of(encoder: Transformer, lengths: tuple[int, ...] = LENGTHS, *, segments: bool = False) -> Tokens:
    rng = np.random.default_rng(0)
    rows = [rng.integers(5, encoder.format.vocab_size, length) for length in lengths]
    types = [(np.arange(length) > length // 2).astype(np.int64) for length in lengths] if segments else []
    return Tokens.pad(rows, encoder.format.pad_id, type_ids=types)


def gradients(encoder: Transformer, tokens: Tokens) -> dict[str, Tensor]:
    """Gradients of a loss over states, sentence vectors and token logits."""
    encoder.zero_grad()
    states, mask, sentence = encoder(tokens)
    logits = encoder.token_logits(states[mask][::3])
    weights = torch.linspace(-1, 1, sentence.numel()).view_as(sentence)
    (
        states[mask].square().mean() + (sentence * weights).mean() + F.cross_entropy(logits, logits.argmin(1))
    ).backward()
    return {name: weight.grad for name, weight in encoder.named_parameters() if weight.grad is not None}


def assert_close(result: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", sorted(varlen.FAMILIES))
def test_states_and_gradients_equal_those_of_padded_rows(family: str) -> None:
    encoder = packing_encoder(family)
    padded_encoder = padding_copy(encoder)
    tokens = tokens_of(encoder, segments=family in WITH_SEGMENTS)
    assert encoder.packs(tokens) and not padded_encoder.packs(tokens)
    result, expected = encoder(tokens), padded_encoder(tokens)
    assert_close(result.states[tokens.mask], expected.states[tokens.mask])
    assert_close(result.sentence, expected.sentence)
    assert result.states.shape == expected.states.shape and not result.states[~tokens.mask].any()
    torch.testing.assert_close(gradients(encoder, tokens), gradients(padded_encoder, tokens), atol=1e-6, rtol=1e-5)


def test_padded_rows_go_through_sdpa_to_the_bit() -> None:
    encoder = tiny(dropout=0.2).train()
    with_sdpa = copy.deepcopy(encoder)
    with_sdpa.model.set_attn_implementation("sdpa")
    tokens, results = tokens_of(encoder), []
    for model in (encoder, with_sdpa):
        torch.manual_seed(0)
        results.append(gradients(model, tokens))
    assert all(torch.equal(gradient, results[1][name]) for name, gradient in results[0].items())


@pytest.mark.parametrize(
    ("family", "sizes", "attention", "packs"),
    [
        ("mpnet", {}, None, False),
        ("bert", {"is_decoder": True}, None, False),
        ("roberta", {}, "sdpa", False),
        ("modernbert", {}, None, True),
    ],
    ids=str,
)
def test_encoders_that_cannot_pack_pad(
    family: str, sizes: dict[str, Any], attention: str | None, packs: bool
) -> None:
    encoder = tiny(family, shape=shape(family, **OWN_SIZES.get(family, {}) | sizes), attention=attention)
    padded = encoder(tokens_of(encoder)).sentence
    encoder.packing.forced = True
    assert encoder.packs(tokens_of(encoder)) == packs
    assert_close(encoder(tokens_of(encoder)).sentence, padded)


def test_another_process_unpickles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny("bert").eval()
    copied, vectors = pickle.dumps(encoder), encoder.encode(["bad bif"])
    for functions in (AttentionInterface, AttentionMaskInterface):
        monkeypatch.delitem(functions._global_mapping, varlen.NAME)
    assert (pickle.loads(copied).encode(["bad bif"]) == vectors).all()


def test_rows_beyond_a_sliding_window_are_padded() -> None:
    encoder = packing_encoder("modernbert", local_attention=48)
    inside, beyond = tokens_of(encoder, (5, 24)), tokens_of(encoder, (5, 25))
    assert encoder.packs(inside) and not encoder.packs(beyond)
    assert torch.equal(encoder(beyond).sentence, padding_copy(encoder)(beyond).sentence)
    assert packing_encoder("modernbert", local_attention=48, layer_types=["full_attention"] * 2).packs(beyond)


def test_on_a_gpu_packing_requires_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"capability": (9, 0)}
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: gpu["capability"])
    encoder = tiny()
    assert encoder.can_pack(GPU, torch.bfloat16, 20) and encoder.can_pack(GPU, torch.float16, 20)
    assert not encoder.can_pack(CPU, torch.bfloat16, 20) and not encoder.can_pack(GPU, torch.float32, 20)
    assert not tiny(shape=shape(num_attention_heads=8)).can_pack(GPU, torch.bfloat16, 20)
    gpu["capability"] = (7, 5)
    assert not encoder.can_pack(GPU, torch.bfloat16, 20)


def test_exports_open_in_transformers_without_a_trace_of_packing(tmp_path: Path) -> None:
    encoder = packing_encoder()
    encoder.save(tmp_path / "encoder")
    assert varlen.NAME not in "".join(path.read_text() for path in (tmp_path / "encoder").rglob("*.json"))
    assert "attn" not in json.loads((tmp_path / "encoder" / "config.json").read_text())
    model = AutoModel.from_pretrained(tmp_path / "encoder")
    assert model.config._attn_implementation == "sdpa"
    tokens = tokens_of(encoder)
    reopened = Transformer.load(tmp_path / "encoder")
    assert not reopened.packs(tokens)
    assert reopened.fingerprint() == encoder.fingerprint() == padding_copy(encoder).fingerprint()


@pytest.mark.parametrize("family", sorted(varlen.FAMILIES))
def test_flash_attention_has_a_backward_pass_and_nothing_waits(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors on the meta device have no values: an operation that reads one, and would wait for a GPU, fails."""
    encoder = packing_encoder(family, dropout=0.1).train()
    tokens = tokens_of(encoder)
    longest, calls = max(LENGTHS), []

    def flash_on_meta(query: Tensor, key: Tensor, value: Tensor, ends: Tensor, *more: Any) -> Tensor:
        assert query.dtype == key.dtype == value.dtype == torch.bfloat16
        calls.append(query.shape)
        return varlen._flash(query, key, value, ends, longest, *more)

    monkeypatch.setattr(varlen, "_row_by_row", flash_on_meta)
    backbone = encoder.backbone.to(device="meta", dtype=torch.bfloat16)
    moved = Tokens(tokens.ids.to("meta"), tokens.mask.to("meta"), tokens.lengths)
    states = varlen.states(backbone, moved, False)
    assert states.shape == (len(LENGTHS), longest, 32) and len(calls) == 2
    assert set(calls) == {(1, 4, sum(LENGTHS), 8)}
    states.sum().backward()
    embeddings = backbone.get_input_embeddings().weight
    assert embeddings.grad is not None and embeddings.grad.shape == embeddings.shape
