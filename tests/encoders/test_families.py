"""Families of transformers: the vectors of transformers' own models for a sentence alone, in any batch."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

import encoders
from data.errors import UserError
from encoders.transformer import Transformer
from tests.checks.encoder import train_tokenizer
from tests.encoders.models import texts

SIZES = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
POSITIONS = {"max_position_embeddings": 42, "pad_token_id": 1}
LONG = "the moon rose over the hill and nobody in the old house by the river saw it. " * 3
SENTENCES = ["a dog", "The cat sat on the mat.", LONG, "a"]

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "data2vec-text": ("Data2VecText", SIZES | POSITIONS),
    "xlm-roberta-xl": ("XLMRobertaXL", SIZES | POSITIONS),
    "fnet": ("FNet", SIZES | POSITIONS),
    "big_bird": ("BigBird", SIZES | {"max_position_embeddings": 64, "block_size": 2, "num_random_blocks": 1}),
    "longformer": ("Longformer", SIZES | {"attention_window": [4, 4], "pad_token_id": 1}),
    "xlnet": ("XLNet", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}),
    "llama": ("Llama", SIZES | {"max_position_embeddings": 40}),
    "t5": ("T5Encoder", {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64}),
}
BARE = ("gpt2", "llama")  # tokenizers without special tokens, and without a padding token


def published_model(family: str, folder: Path) -> Any:
    """Saves a random model of ``family`` with a tokenizer as published ones; returns the model."""
    name, sizes = FAMILIES[family]
    bpe = train_tokenizer(Transformer, texts(), shape={"model_type": "bert"}, vocab_size=400)
    if family in BARE:
        backend = copy.deepcopy(bpe.backend_tokenizer)
        backend.post_processor = transformers.tokenization_utils_fast.processors.ByteLevel()  # type: ignore[attr-defined]
        bpe = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", padding_side="left")
    bpe.save_pretrained(folder)
    config = getattr(transformers, f"{name.removesuffix('Encoder')}Config")(vocab_size=len(bpe), **sizes)
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}Model")(config).eval()
    with torch.no_grad():  # so that positions and neighbours matter
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    model.save_pretrained(folder)
    return model


@torch.no_grad()
def alone(model: Any, encoder: Transformer, sentence: str) -> np.ndarray:
    """Returns the mean of transformers' own states of a sentence, without batch and padding."""
    content = encoder.tokenizer(sentence, add_special_tokens=False)["input_ids"]
    ids = torch.from_numpy(encoder.format.wrap(np.array(content, dtype=np.int64)))[None]
    return copy.deepcopy(model)(input_ids=ids).last_hidden_state.mean(1)[0].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_those_of_transformers_in_any_batch(family: str, tmp_path: Path) -> None:
    model = published_model(family, tmp_path / "m")
    before = json.loads((tmp_path / "m" / "config.json").read_text())
    encoder = encoders.load(tmp_path / "m")
    assert isinstance(encoder, Transformer) and encoder.tokenizer.padding_side == "right"  # of a card's code, too
    expected = np.stack([alone(model, encoder, sentence) for sentence in SENTENCES])
    for batch in (SENTENCES, SENTENCES[::-1]):
        vectors = encoder.encode(batch)
        np.testing.assert_allclose(vectors if batch is SENTENCES else vectors[::-1], expected, atol=1e-5)
    for sentence, vector in zip(SENTENCES, expected, strict=True):
        np.testing.assert_allclose(encoder.encode(sentence), vector, atol=1e-5)
    encoder.save(tmp_path / "saved")
    after = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert after.get("attention_type") == before.get("attention_type")
    np.testing.assert_allclose(encoders.load(tmp_path / "saved").encode(SENTENCES), expected, atol=1e-5)
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    longest_first = sorted(SENTENCES, key=len, reverse=True)  # there BigBird stays at full attention
    vectors = {sentence: theirs.encode([sentence])[0] for sentence in longest_first}
    np.testing.assert_allclose([vectors[sentence] for sentence in SENTENCES], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "limit"), [("data2vec-text", 40), ("xlm-roberta-xl", 40), ("fnet", 42), ("gpt2", 40)]
)
def test_the_longest_input_is_what_the_positions_allow(family: str, limit: int, tmp_path: Path) -> None:
    published_model(family, tmp_path)
    encoder = encoders.load(tmp_path)
    assert encoder.format.max_length == limit
    assert np.isfinite(encoder.encode(LONG * 5)).all()


@pytest.mark.parametrize("family", BARE)
def test_an_empty_text_without_special_tokens_is_a_zero_vector(family: str, tmp_path: Path) -> None:
    published_model(family, tmp_path)
    encoder = encoders.load(tmp_path)
    assert not encoder.encode("").any() and not encoder.encode(["", "a dog", ""])[[0, 2]].any()
    assert encoder.encode(["", "a dog"])[1] == pytest.approx(encoder.encode("a dog"), abs=1e-6)


@pytest.mark.parametrize("with_base", [True, False])
def test_a_lora_folder_is_refused(with_base: bool, tmp_path: Path) -> None:
    if with_base:
        published_model("gpt2", tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (tmp_path / "adapter_model.safetensors").touch()
    with pytest.raises(UserError) as error:
        encoders.load(tmp_path)
    assert error.value.key == str(tmp_path) and "LoRA" in error.value.text


def test_a_model_without_a_tokenizer_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
    }
    transformers.BertModel(transformers.BertConfig(vocab_size=50, **sizes)).save_pretrained(tmp_path)
    for folder, text in ((tmp_path, "no tokenizer"), (tmp_path / "missing", "no such encoder")):
        with pytest.raises(UserError, match=text):
            encoders.load(folder)


def test_an_encoder_with_a_decoder_is_refused(tmp_path: Path) -> None:
    published_model("gpt2", tmp_path)
    transformers.BartConfig().save_pretrained(tmp_path)
    with pytest.raises(UserError):
        encoders.load(tmp_path)
