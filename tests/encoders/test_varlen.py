"""The packed forward pass equals the padded one on a CPU; the GPU's kernel has valid arguments and gradients."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel

import objectives.declutr
from data.batch import Batch, Tokens
from encoders import varlen
from encoders.concatenated import Concatenated
from encoders.fingerprint import fingerprint
from encoders.transformer import Transformer
from objectives.declutr import Declutr
from tests.encoders.models import SENTENCES, shape, tiny

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
LENGTHS = (5, 40, 3, 11, 24)  # more tokens in total than the models have positions
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
    types = [(np.arange(length) > length // 2).astype(np.int64) for length in lengths] if segments else None
    return Tokens.pad(rows, encoder.format.pad_id, type_ids=types)


def gradients_of(encoder: Transformer) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad
        for name, weight in encoder.named_parameters()
    }


def gradients(encoder: Transformer, tokens: Tokens) -> dict[str, Tensor]:
    """Gradients of a loss over states, sentence vectors and token logits."""
    encoder.zero_grad()
    states, mask, sentence = encoder(tokens)
    logits = encoder.token_logits(states[mask][::3])
    weights = torch.linspace(-1, 1, sentence.numel()).view_as(sentence)
    (
        states[mask].square().mean() + (sentence * weights).mean() + F.cross_entropy(logits, logits.argmin(1))
    ).backward()
    return gradients_of(encoder)


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", sorted(varlen.FAMILIES))
def test_states_and_gradients_equal_those_of_padded_rows(family: str) -> None:
    encoder = packing_encoder(family)
    padded_encoder = padding_copy(encoder)
    tokens = tokens_of(encoder, segments=family in WITH_SEGMENTS)
    assert encoder.packs(tokens) and not padded_encoder.packs(tokens)
    found, expected = encoder(tokens), padded_encoder(tokens)
    assert_close(found.states[tokens.mask], expected.states[tokens.mask])
    assert_close(found.sentence, expected.sentence)
    assert found.states.shape == expected.states.shape and not found.states[~tokens.mask].any()
    torch.testing.assert_close(gradients(encoder, tokens), gradients(padded_encoder, tokens), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", sorted(varlen.FAMILIES))
def test_a_change_in_one_row_does_not_affect_the_others(family: str) -> None:
    encoder = packing_encoder(family)
    tokens = tokens_of(encoder)
    before = encoder(tokens).states
    tokens.ids[1, :40] = tokens.ids[1, :40].flip(0)
    after = encoder(tokens).states
    others = [0, 2, 3, 4]
    torch.testing.assert_close(after[others], before[others], atol=1e-7, rtol=0)
    assert (after[1] - before[1]).abs().max() > 1e-2


@pytest.mark.parametrize("family", sorted(varlen.FAMILIES))
def test_a_layer_that_does_not_get_the_lengths_fails(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = packing_encoder(family)
    original = type(encoder.backbone).forward

    def without_lengths(self: Any, cu_seq_lens_q: Tensor | None = None, **more: Any) -> Any:
        return original(self, **more)

    monkeypatch.setattr(type(encoder.backbone), "forward", without_lengths)
    with pytest.raises(RuntimeError, match="attn_mask"):
        encoder(tokens_of(encoder))


@pytest.mark.parametrize("lengths", [(9,), (64,), (7, 7, 7), (4, 0, 6), (0, 0, 5)], ids=str)
@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_single_equally_long_and_empty_rows_equal_padded_ones(family: str, lengths: tuple[int, ...]) -> None:
    encoder = packing_encoder(family)
    tokens = tokens_of(encoder, lengths)
    found, expected = encoder(tokens), padding_copy(encoder)(tokens)
    assert_close(found.states[tokens.mask], expected.states[tokens.mask])
    assert_close(found.sentence, expected.sentence)
    assert encoder.packs(tokens) and not encoder.packs(tokens_of(encoder, (0, 0)))
    assert all(not found.sentence[row].any() for row, length in enumerate(lengths) if length == 0)


def test_padded_rows_go_through_sdpa_to_the_bit() -> None:
    encoder = tiny(dropout=0.2).train()
    with_sdpa = copy.deepcopy(encoder)
    with_sdpa.model.set_attn_implementation("sdpa")
    tokens, results = tokens_of(encoder), []
    for model in (encoder, with_sdpa):
        torch.manual_seed(0)
        results.append(gradients(model, tokens))
    assert all(torch.equal(gradient, results[1][name]) for name, gradient in results[0].items())


def test_padding_tokens_inside_a_row_keep_the_padded_positions() -> None:
    encoder = packing_encoder("roberta")  # RoBERTa's position ids skip padding tokens
    tokens = tokens_of(encoder)
    tokens.ids[1, 3] = tokens.ids[4, 0] = encoder.format.pad_id
    assert_close(encoder(tokens).states[tokens.mask], padding_copy(encoder)(tokens).states[tokens.mask])


def test_dropout_follows_the_mode_and_the_seed() -> None:
    encoder = packing_encoder()
    for layer in encoder.backbone.encoder.layer:
        layer.attention.self.dropout.p = 0.5  # attention dropout only
    tokens = tokens_of(encoder)
    expected = padding_copy(encoder)(tokens).sentence
    assert_close(encoder(tokens).sentence, expected)
    encoder.train()
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(encoder(tokens).sentence)
    assert torch.equal(drawn[0], drawn[1])
    assert (drawn[0] - drawn[2]).abs().max() > 1e-3 and (drawn[0] - expected).abs().max() > 1e-3


def test_attention_dropout_keeps_the_mean() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 4, 300, 8).unbind()
    value = torch.ones(1, 4, 300, 8)  # so that each output is the sum of the attention weights kept
    ends = torch.tensor([0, 100, 300], dtype=torch.int32)
    found, _ = varlen.attention(torch.nn.Identity(), query, key, value, None, 0.3, 1.0, ends, 200)
    assert found.shape == (1, 300, 4, 8)
    assert abs(float(found.mean()) - 1) < 0.05 and float(found.std()) > 0.05


def declutr(**settings: Any) -> Declutr:
    return Declutr(batch_size=4, min_length=4, max_length=16, **settings)


def batch_of(objective: Declutr, encoder: Transformer) -> Batch:
    documents = [np.random.default_rng(row).integers(5, encoder.format.vocab_size, 120) for row in range(4)]
    rngs = [np.random.default_rng(10 + row) for row in range(4)]
    drawn = [objective.sample(unit, encoder.format, rng) for unit, rng in zip(documents, rngs, strict=True)]
    return objective.collate(drawn, encoder.format)


def step(objective: Declutr, encoder: Transformer, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    encoder.zero_grad()
    torch.manual_seed(3)
    loss = objective.loss(encoder, batch).total
    loss.backward()
    return loss.detach(), gradients_of(encoder)


def test_gradient_caching_repeats_the_same_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, encoder = declutr(cache_chunk=24), packing_encoder(dropout=0.3).train()
    batch = batch_of(objective, encoder)
    cached = step(objective, encoder, batch)
    with monkeypatch.context() as patch:
        patch.setattr(objectives.declutr, "checkpoint", lambda run, *args, use_reentrant: run(*args))
        plain = step(objective, encoder, batch)
    assert torch.equal(cached[0], plain[0])
    torch.testing.assert_close(cached[1], plain[1], atol=1e-6, rtol=1e-4)


def test_declutr_packs_all_spans_into_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, encoder = declutr(), packing_encoder().train()
    batch = batch_of(objective, encoder)
    rows_per_pass: list[int] = []
    forward = encoder.forward

    def counting(tokens: Tokens) -> Any:
        rows_per_pass.append(len(tokens))
        return forward(tokens)

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "forward", counting)
        packed = step(objective, encoder, batch)
    assert rows_per_pass == [8 + 16]
    padded_encoder = padding_copy(encoder)
    padded, cached = step(objective, padded_encoder, batch), step(declutr(cache_chunk=24), encoder, batch)
    for loss, found in (packed, cached):
        torch.testing.assert_close(loss, padded[0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(found, padded[1], atol=1e-6, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable")
def test_gradient_checkpointing_of_layers_computes_packed_rows_again() -> None:
    encoder = packing_encoder().train()
    tokens = tokens_of(encoder)
    expected = gradients(encoder, tokens)
    encoder.backbone.gradient_checkpointing_enable()
    torch.testing.assert_close(gradients(encoder, tokens), expected, atol=1e-6, rtol=1e-4)


def test_encode_and_vectors_equal_those_of_padded_rows() -> None:
    encoder = packing_encoder()
    padded_encoder = padding_copy(encoder)
    expected = padded_encoder.encode(SENTENCES)
    np.testing.assert_allclose(encoder.encode(SENTENCES, batch_tokens=100), expected, atol=1e-6)
    one_by_one = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
    tokens = tokens_of(encoder, LENGTHS * 40)
    assert_close(encoder.vectors(tokens), padded_encoder.vectors(tokens))


def test_packed_rows_in_autocast_equal_padded_ones() -> None:
    encoder = packing_encoder()
    tokens = tokens_of(encoder)
    exact = encoder(tokens).sentence
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = encoder(tokens), padding_copy(encoder)(tokens)
    assert found.states.dtype == expected.states.dtype
    assert 0 < (found.sentence - exact).abs().max() < 0.05
    torch.testing.assert_close(found.sentence, expected.sentence, atol=0.03, rtol=0)


def reason(encoder: Transformer, longest: int = 20) -> str | None:
    return encoder.padding_reason(CPU, torch.float32, longest)


@pytest.mark.parametrize(
    ("family", "sizes", "attention", "expected"),
    [
        pytest.param("mpnet", {}, None, "mpnet models have no packed forward pass", id="unsupported family"),
        pytest.param(
            "bert", {"is_decoder": True}, None, "bert models have no packed forward pass", id="causal attention"
        ),
        pytest.param("roberta", {}, "sdpa", "encoder.attention=sdpa", id="sdpa requested"),
        pytest.param("roberta", {}, "eager", "encoder.attention=eager", id="eager requested"),
        pytest.param("modernbert", {}, None, None, id="modernbert packs"),
        pytest.param("roberta", {}, None, None, id="roberta packs"),
    ],
)
def test_encoders_that_cannot_pack_pad_and_give_the_reason(
    family: str, sizes: dict[str, Any], attention: str | None, expected: str | None
) -> None:
    encoder = tiny(family, shape=shape(family, **OWN_SIZES.get(family, {}) | sizes), attention=attention)
    padded = encoder(tokens_of(encoder)).sentence
    encoder.packing.forced = True
    assert reason(encoder) == expected
    assert_close(encoder(tokens_of(encoder)).sentence, padded)


def test_rows_beyond_a_sliding_window_are_padded() -> None:
    encoder = packing_encoder("modernbert", local_attention=48)
    inside, beyond = tokens_of(encoder, (5, 24)), tokens_of(encoder, (5, 25))
    assert encoder.packs(inside) and not encoder.packs(beyond)
    assert reason(encoder, 25) == "rows of more than 24 tokens exceed the attention window of modernbert"
    assert torch.equal(encoder(beyond).sentence, padding_copy(encoder)(beyond).sentence)
    without_window = packing_encoder("modernbert", local_attention=48, layer_types=["full_attention"] * 2)
    assert without_window.packs(beyond)
    assert_close(without_window(beyond).sentence, padding_copy(without_window)(beyond).sentence)


def test_on_a_gpu_packing_requires_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"capability": (9, 0)}
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: gpu["capability"])
    encoder = tiny()
    assert encoder.padding_reason(GPU, torch.bfloat16, 20) is None
    assert encoder.padding_reason(GPU, torch.float16, 20) is None
    assert encoder.padding_reason(CPU, torch.bfloat16, 20) == "rows are packed on CUDA devices only, not on cpu"
    in_float32 = encoder.padding_reason(GPU, torch.float32, 20)
    assert in_float32 == "flash attention takes float16 and bfloat16, not float32"
    gpu["capability"] = (7, 5)
    on_old_gpu = encoder.padding_reason(GPU, torch.bfloat16, 20)
    assert on_old_gpu == "this GPU or this build of torch has no flash attention"
    small_heads = tiny(shape=shape(num_attention_heads=8)).padding_reason(GPU, torch.bfloat16, 20)
    assert small_heads == "flash attention takes heads of a multiple of 8 and at most 192 components, not 4"


def test_concatenated_encoders_pack_if_all_members_do() -> None:
    encoder = packing_encoder()
    packed = Concatenated([encoder, copy.deepcopy(encoder)])
    assert packed.packs(tokens_of(encoder))
    mixed = Concatenated([encoder, padding_copy(encoder)])
    assert mixed.padding_reason(CPU, torch.float32, 9) == "rows are packed on CUDA devices only, not on cpu"


def test_exports_open_in_transformers_without_a_trace_of_packing(tmp_path: Path) -> None:
    encoder = packing_encoder()
    encoder.save(tmp_path / "encoder")
    assert varlen.NAME not in "".join(path.read_text() for path in (tmp_path / "encoder").rglob("*.json"))
    assert "attn" not in json.loads((tmp_path / "encoder" / "config.json").read_text())
    model = AutoModel.from_pretrained(tmp_path / "encoder")
    assert model.config._attn_implementation == "sdpa"
    tokens = tokens_of(encoder)
    states = model(input_ids=tokens.ids, attention_mask=tokens.mask).last_hidden_state
    assert_close(encoder(tokens).states[tokens.mask], states[tokens.mask])
    reopened = Transformer.load(tmp_path / "encoder")
    assert not reopened.packs(tokens) and reason(reopened) == "rows are packed on CUDA devices only, not on cpu"
    assert fingerprint(reopened) == fingerprint(encoder) == fingerprint(padding_copy(encoder))


def test_a_copy_and_a_model_with_a_new_head_pack_too(tmp_path: Path) -> None:
    source = tiny("bert")
    source.backbone.save_pretrained(tmp_path)
    source.tokenizer.save_pretrained(tmp_path)
    encoder = Transformer(path=str(tmp_path))
    encoder.packing.forced = True
    tokens = tokens_of(encoder)
    expected = encoder(tokens).states
    encoder.add_mlm_head()
    encoder.add_pooler()
    for model in (encoder, copy.deepcopy(encoder)):
        assert model.packs(tokens)
        assert_close(model(tokens).states, expected)
    packed, padded = (model.sequence_features(model(tokens)) for model in (encoder, padding_copy(encoder)))
    assert_close(packed, padded)


def test_flash_attention_is_called_with_valid_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch's operator looks its arguments up by the names in the operator's schema."""
    names = [argument.name for argument in torch.ops.aten._flash_attention_forward.default._schema.arguments]

    def stand_in(*positional: Any, **keywords: Any) -> tuple[Tensor, ...]:
        args = dict(zip(names, positional, strict=False)) | keywords
        assert args["cum_seq_q"].dtype == args["cum_seq_k"].dtype == torch.int32
        assert args["max_q"] == args["max_k"] == 7 and not args["is_causal"] and not args["return_debug_mask"]
        rows = []
        for start, end in pairwise(args["cum_seq_q"].tolist()):
            q, k, v = (args[name][start:end].transpose(0, 1) for name in ("query", "key", "value"))
            row = F.scaled_dot_product_attention(q, k, v, dropout_p=args["dropout_p"], scale=args["scale"])
            rows.append(row.transpose(0, 1))
        return torch.cat(rows), *torch.empty(4, 0).unbind()

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", stand_in)
    query, key, value = torch.randn(3, 1, 2, 12, 8).unbind()
    ends = torch.tensor([0, 5, 12], dtype=torch.int32)
    for dropout in (0.0, 0.5):
        torch.manual_seed(0)
        found = varlen._flash(query, key, value, ends, 7, dropout, 0.3)
        torch.manual_seed(0)
        expected = varlen._row_by_row(query, key, value, ends, dropout, 0.3)
        torch.testing.assert_close(found, expected)


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
