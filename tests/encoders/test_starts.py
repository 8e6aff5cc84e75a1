"""Weights from the hub, its cache, folders and bundled checkpoints; random starts and their vocabularies."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants, errors
from transformers import (
    GPT2Config,
    GPT2Model,
    PreTrainedTokenizerFast,
)

import encoders
from data import network
from data.errors import UserError
from data.tokenizer import plain_backend
from encoders import BUNDLED, models, starts
from encoders.transformer import Transformer
from experiments import config as configuration
from tests.encoders.models import SENTENCES, shape, texts, tiny
from tests.experiments.tiny import check


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "no-cache"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)


def _small_hub_model(**arguments: Any) -> Transformer:
    return Transformer(name="FacebookAI/roberta-base", texts=texts, vocab_size=400, **arguments)


def test_auto_falls_back_to_a_small_random_model_and_reports_it(
    no_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "CHECKPOINTS", tmp_path)
    encoder = _small_hub_model(shape=shape("roberta", hidden_size=768, num_attention_heads=12))
    assert encoder.weights == "random"
    assert encoder.origin.startswith("random roberta, 4 layers x 256, vocabulary of ")
    assert encoder.fallback == (
        "FacebookAI/roberta-base is not on this machine, and the hub (huggingface.co) is not reachable: "
        "the encoder is a small roberta with random weights instead."
    )


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("roberta-base", "roberta"),
        ("distilbert/distilroberta-base", "roberta"),
        ("google-bert/bert-base-uncased", "bert"),
        ("albert/albert-base-v2", "albert"),
        ("distilbert-base-uncased", "distilbert"),
        ("distilgpt2", "gpt2"),
        ("sentence-transformers/all-MiniLM-L6-v2", None),
    ],
)
def test_the_family_is_found_by_name(name: str, family: str | None) -> None:
    assert models.family(name) == family


def test_pretrained_never_falls_back(no_network: None) -> None:
    with pytest.raises(UserError):
        _small_hub_model(weights="pretrained")
    with pytest.raises(UserError):
        encoders.load("roberta-base")


def test_an_unknown_family_has_no_random_start(no_network: None) -> None:
    with pytest.raises(UserError):
        Transformer(name="someone/minilm", texts=texts)


@pytest.mark.parametrize("typed", [f"{encoders.BUNDLED}0", encoders.BUNDLED[:-1], "declutr-mni"])
def test_a_misspelt_bundled_name_does_not_fall_back(typed: str, no_network: None) -> None:
    with pytest.raises(UserError):
        Transformer(name=typed, texts=texts, shape=shape("modernbert"))


def test_offline_mode_makes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    encoder = _small_hub_model()
    assert encoder.fallback is not None and "HF_HUB_OFFLINE is set" in encoder.fallback


def test_a_hub_that_never_answers_costs_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: time.sleep(30))
    start = time.monotonic()
    encoder = _small_hub_model()
    assert time.monotonic() - start < 20  # connecting takes 30 s, the limit is 5 s; a busy machine adds to it
    assert encoder.fallback is not None and "did not answer within 5 s" in encoder.fallback


def _serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Makes ``snapshot_download`` copy from ``folder``; records and returns the file patterns of each call."""
    target, calls = folder.parent / "snapshots" / "0123456789abcdef", []

    def download(
        name: str, *, local_files_only: bool = False, allow_patterns: tuple[str, ...] = (), **_: Any
    ) -> str:
        if local_files_only:
            raise errors.LocalEntryNotFoundError("not cached")
        calls.append(tuple(allow_patterns))
        for path in folder.rglob("*"):
            relative = path.relative_to(folder)
            if path.is_file() and any(relative.match(pattern) for pattern in allow_patterns):
                (target / relative).parent.mkdir(parents=True, exist_ok=True)
                (target / relative).write_bytes(path.read_bytes())
        return str(target)

    monkeypatch.setattr(starts, "snapshot_download", download)
    monkeypatch.setattr(network, "unreachable", lambda question: None)
    return calls


def test_settings_of_a_hub_model_are_fetched_before_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = tiny(pooling="max")
    original.save(tmp_path / "hub")
    calls = _serve(tmp_path / "hub", monkeypatch)
    encoder = Transformer(name="someone/some-model", require_mask_token=True)
    assert (encoder.weights, encoder.origin) == ("pretrained", "someone/some-model, revision 0123456789ab")
    assert encoder.fallback is None and encoder.pooling == "max" and encoder.has_mlm_head
    assert not any("safetensors" in pattern for pattern in calls[0]) and len(calls) == 2


def test_a_complete_cache_of_the_hub_is_used_without_network(tmp_path: Path, no_network: None) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "no-cache" / "models--someone--some-model"
    original = tiny()
    original.save(model / "snapshots" / revision)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(revision)
    encoder = Transformer(name="someone/some-model", weights="pretrained")
    assert (encoder.weights, encoder.origin) == ("pretrained", "someone/some-model, revision 0123456789ab")
    assert encoder.encode(["a cat"]) == pytest.approx(original.encode(["a cat"]), abs=1e-6)
    (model / "snapshots" / revision / "model.safetensors").unlink()
    with pytest.raises(UserError):
        Transformer(name="someone/some-model", weights="pretrained")


def test_pickled_weights_on_the_hub_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny().save(tmp_path / "hub")
    (tmp_path / "hub" / "model.safetensors").rename(tmp_path / "hub" / "pytorch_model.bin")
    calls = _serve(tmp_path / "hub", monkeypatch)
    with pytest.raises(UserError):
        Transformer(name="someone/some-model", weights="pretrained")
    assert not any(pattern.endswith(".bin") for patterns in calls for pattern in patterns)


def _gpt2_folder(folder: Path) -> Path:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny().tokenizer.backend_tokenizer, pad_token="<pad>")
    tokenizer.save_pretrained(folder)
    GPT2Model(GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=len(tokenizer))).save_pretrained(folder)
    return folder


NO_MASK = "has no mask token, and the objective predicts masked words"


def test_a_model_without_mask_token_is_refused_before_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _serve(_gpt2_folder(tmp_path / "gpt"), monkeypatch)
    with pytest.raises(UserError):
        Transformer(name="someone/causal", require_mask_token=True)
    assert len(calls) == 1  # for settings and tokenizer, none for weights


def test_a_family_without_masked_lm_is_refused_offline(no_network: None, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        Transformer(name="openai-community/gpt2", require_mask_token=True, texts=texts)
    with pytest.raises(UserError):
        Transformer(path=str(_gpt2_folder(tmp_path / "gpt")), require_mask_token=True)


def test_a_causal_model_serves_where_no_mask_is_needed(tmp_path: Path) -> None:
    encoder = Transformer(path=str(_gpt2_folder(tmp_path / "gpt")), pooling="last")
    assert not encoder.has_mlm_head and encoder.format.mask_id is None
    assert encoder.encode(["a cat", "", "a dog and a cat"]).shape == (3, 32)
    with pytest.raises(UserError):
        encoder.add_mlm_head()


def test_bundled_weights_take_precedence_over_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.setattr(starts, "CHECKPOINTS", tmp_path)
    assert Transformer(name=BUNDLED, shape=shape(), texts=texts, vocab_size=400).weights == "random"
    with pytest.raises(UserError):
        Transformer(name=BUNDLED, weights="pretrained")
    original = tiny()
    original.save(tmp_path / "declutr-mini")  # used only under its own name, never as a fallback for another
    assert _small_hub_model().weights == "random"
    original.save(tmp_path / BUNDLED)
    encoder = Transformer(name=BUNDLED, shape=shape())
    assert (encoder.weights, encoder.origin) == ("bundled", f"{BUNDLED}, bundled")
    with pytest.raises(UserError):
        Transformer(name=BUNDLED, shape=shape(hidden_size=64))
    with pytest.raises(UserError):
        Transformer(name=BUNDLED, shape=shape("bert"))
    substitute = _small_hub_model()
    assert substitute.weights == "bundled" and substitute.fallback is not None
    assert substitute.fallback.endswith(f"the encoder starts from the bundled {BUNDLED} instead.")
    assert encoders.load(BUNDLED).encode(["a cat"]) == pytest.approx(original.encode(["a cat"]), abs=1e-6)


def test_roberta_starts_from_the_bundled_model_of_any_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.setattr(starts, "CHECKPOINTS", tmp_path)
    Transformer(weights="random", shape=shape("bert"), texts=texts, vocab_size=400).save(tmp_path / BUNDLED)
    assert _small_hub_model().model.config.model_type == "bert"
    other = Transformer(name="google-bert/bert-base-uncased", texts=texts, vocab_size=400)
    assert other.weights == "random"  # only roberta names fall back to the bundled model


def test_the_tokenizer_of_a_random_start_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny(cache=tmp_path)
    monkeypatch.setattr("data.tokenizer.train_bpe", None)
    again = tiny(cache=tmp_path)
    assert again.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    assert again.format == first.format
    assert again.tokenizer("a cat<mask>")["input_ids"] == first.tokenizer("a cat<mask>")["input_ids"]
    with pytest.raises(TypeError):  # other texts need a new tokenizer, hence train_bpe
        tiny(cache=tmp_path, texts=lambda: ["other texts"])


def test_a_resumed_run_uses_its_own_tokenizer(tmp_path: Path) -> None:
    first = tiny()
    first.tokenizer.save_pretrained(tmp_path / "tokenizer")
    again = tiny(tokenizer=tmp_path / "tokenizer", texts=None)
    assert again.untrained and again.format == first.format
    serialised = [plain_backend(encoder.tokenizer).to_str() for encoder in (first, again)]
    assert serialised[0] == serialised[1]  # so both runs use the same token store
    with pytest.raises(UserError):
        tiny(tokenizer=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["declutr_mini", "DeCLUTR-mini", "declutr-mni"])
def test_for_a_misspelt_bundled_name_the_right_one_is_suggested(name: str) -> None:
    with pytest.raises(UserError) as refused:
        encoders.load(name)
    assert refused.value.hint == "Did you mean declutr-mini?"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        Transformer(path=str(tmp_path / "nothing"))
    with pytest.raises(UserError):
        Transformer(path=str(tmp_path))
    (tmp_path / "encoder").mkdir()
    with pytest.raises(UserError):
        Transformer(path=str(tmp_path))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "nothing")
    with pytest.raises(UserError):
        encoders.load(None)  # type: ignore[arg-type]
    with pytest.raises(UserError):
        encoders.load("roberta-mini", pooling="avg")
    with pytest.raises(UserError):
        encoders.load("roberta-mini", device="gpu")


def test_broken_folders_are_refused(tmp_path: Path) -> None:
    tiny().save(tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")
    weights.rename(tmp_path / "m" / "pytorch_model.bin")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")
    (tmp_path / "m" / "pytorch_model.bin").unlink()
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tiny().save(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    del tensors["roberta.encoder.layer.1.output.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "m")
    encoder.tokenizer.add_tokens(["<one>", "<more>"])
    encoder.tokenizer.save_pretrained(tmp_path / "m")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "m")


def test_pooling_can_be_overridden(tmp_path: Path) -> None:
    encoder = tiny(pooling="mean")
    encoder.save(tmp_path / "encoder")
    max_pooled = encoders.load(tmp_path / "encoder", pooling="max").encode(SENTENCES)
    assert not np.allclose(max_pooled, encoder.encode(SENTENCES))
    encoder.pooling = "max"
    np.testing.assert_allclose(max_pooled, encoder.encode(SENTENCES), atol=1e-6)


def test_loading_by_class_stays_in_this_package(tmp_path: Path) -> None:
    tiny().save(tmp_path / "encoder")
    marker = tmp_path / "encoder" / "encoder.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"class": "os.path.join"}))
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")


def test_the_bundled_configuration_opens_the_bundled_weights() -> None:
    encoder = configuration.build(check(["encoder=bundled"])["encoder"], "encoder")
    assert encoder.origin == f"{BUNDLED}, bundled"
