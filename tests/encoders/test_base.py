"""Sub-batches of similar length; what changes a fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaTokenizer

import encoders
from encoders import base
from encoders.transformer import Transformer
from tests.encoders.models import tiny, tokens_of


def test_sub_batches_give_the_vectors_of_one_pass_with_less_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LEAST_SAVING", 8)
    encoder = tiny()
    tokens = tokens_of(encoder, (5, 20, 3, 4, 20, 6, 11, 3, 12, 21))
    weights, expected = list(encoder.parameters()), encoder(tokens).sentence
    areas: list[int] = []
    encoder.register_forward_pre_hook(lambda _, arguments: areas.append(arguments[0].ids.numel()))
    vectors = encoder.vectors(tokens)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)
    assert len(areas) > 2 and sum(areas) < 0.6 * tokens.ids.numel()
    weighting = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad((each * weighting).sum(), weights, materialize_grads=True, allow_unused=True)
        for each in (vectors, expected)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    areas.clear()
    encoder.vectors(tokens_of(encoder, (7, 7, 7)))
    assert areas == [21]  # equal lengths: one sub-batch


def test_every_setting_that_changes_vectors_changes_the_fingerprint(tmp_path: Path) -> None:
    tiny().save(tmp_path)
    result = [encoders.load(tmp_path, pooling="max"), *(encoders.load(tmp_path) for _ in range(3))]
    result += [Transformer(path=str(tmp_path), max_length=32), Transformer(path=str(tmp_path), normalize=True)]
    with torch.no_grad():
        next(result[1].parameters()).view(-1)[7] += 1e-6
    result[2].model.config.hidden_act = "relu"  # type: ignore[union-attr]
    assert len({each.fingerprint() for each in result}) == len(result)


def test_a_tokenizer_that_pads_on_the_left_by_its_class_is_saved_with_right(tmp_path: Path) -> None:
    """Rows are padded on the right here, so code on the card needs it, too."""
    vocabulary = {name: number for number, name in enumerate(["<unk>", "<s>", "</s>", "a", "b"])}
    tokenizer = LlamaTokenizer(vocab=vocabulary, merges=[])
    assert tokenizer.padding_side == "left"
    base.token_format(tokenizer, 9)
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).padding_side == "right"
