"""Weights from the hub, its cache, folders and bundled checkpoints."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

import encoders
from data.errors import UserError
from encoders import BUNDLED
from encoders.transformer import Transformer
from experiments import config as configuration
from tests.encoders.models import shape, tiny
from tests.experiments.tiny import check


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "no-cache"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)


def roberta(**arguments: Any) -> Transformer:
    return Transformer(**{"name": "FacebookAI/roberta-base", "shape": shape(), **arguments})


def test_auto_falls_back_to_the_bundled_model_and_reports_it(no_network: None) -> None:
    encoder = roberta()
    assert (encoder.weights, encoder.origin) == ("bundled", f"{BUNDLED}, bundled")
    assert encoder.fallback is not None and BUNDLED in encoder.fallback


@pytest.mark.parametrize("arguments", [{"weights": "pretrained"}, {"shape": None}], ids=str)
def test_nothing_else_falls_back(arguments: dict[str, Any], no_network: None) -> None:
    with pytest.raises(UserError):
        roberta(**arguments)


def test_a_complete_cache_of_the_hub_is_used_without_network(tmp_path: Path, no_network: None) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "no-cache" / "models--someone--some-model"
    original = tiny(pooling="max")
    original.save(model / "snapshots" / revision)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(revision)
    encoder = Transformer(name="someone/some-model", weights="pretrained")
    assert (encoder.weights, encoder.origin) == ("pretrained", "someone/some-model, revision 0123456789ab")
    assert encoder.fallback is None and encoder.pooling == "max" and encoder.has_mlm_head
    assert encoder.encode(["a cat"]) == pytest.approx(original.encode(["a cat"]), abs=1e-6)
    (model / "snapshots" / revision / "model.safetensors").unlink()
    with pytest.raises(UserError):
        Transformer(name="someone/some-model", weights="pretrained")


def test_the_bundled_configuration_opens_the_bundled_weights() -> None:
    encoder = configuration.build(check(["encoder=bundled"])["encoder"], "encoder")
    assert encoder.origin == f"{BUNDLED}, bundled" and encoder.format.max_length == 512
    assert encoders.load(BUNDLED).format == encoder.format
