"""Contents of an encoder's folder that are accepted or refused; impossible sizes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import encoders
from data.errors import UserError
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.lstm import LSTM
from encoders.transformer import Transformer
from tests.encoders import bilstms
from tests.encoders.folder_damage import change, config, put, save_all, weights
from tests.encoders.models import shape, tiny


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the folders of one encoder of each kind."""
    root = tmp_path_factory.mktemp("intact")
    save_all(root)
    return root


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        "..",
        "~nobody_at_all",
        pytest.param("a" * 100_000, id="100,000 letters"),
        "\x1b[31mred",
        "a\nb",
        "\0",
        "a/b/c",
        "/dev/null",
        pytest.param(__file__, id="a file"),
    ],
)
def test_strange_names_are_refused_in_printable_text(name: str) -> None:
    with pytest.raises(UserError) as error:
        encoders.load(name)
    assert str(error.value).isprintable() and len(str(error.value)) < 500


def test_extra_weights_and_code_settings_of_a_folder_are_ignored(intact: Path, tmp_path: Path) -> None:
    """Heads of other tasks, a pooler and old buffers are ignored, and settings that name code are not followed."""
    expected = encoders.load(intact / "transformer").encode(["a cat"])
    shutil.copytree(intact / "transformer", tmp_path / "encoder")
    extra = {
        "classifier.dense.weight": torch.ones(2, 32),
        "qa_outputs.bias": torch.ones(2),
        "roberta.pooler.dense.weight": torch.ones(32, 32),
        "roberta.embeddings.position_ids": torch.arange(66)[None],
    }
    weights(lambda tensors: tensors.update(extra))(tmp_path / "encoder")
    config(
        attn_implementation="evil/kernels",
        _attn_implementation="evil/kernels@main:flash",
        auto_map={"AutoConfig": "evil/code--config.Config"},
        _name_or_path="evil/model",
        transformers_weights="../other.safetensors",
    )(tmp_path / "encoder")
    put("adapter_config.json", '{"base_model_name_or_path": "evil/model"}')(tmp_path / "encoder")
    change("tokenizer_config.json", name_or_path="evil/model", tokenizer_file="/etc/hostname")(
        tmp_path / "encoder"
    )
    np.testing.assert_array_equal(encoders.load(tmp_path / "encoder").encode(["a cat"]), expected)


def test_links_inside_a_cache_of_the_hub_are_followed(intact: Path, tmp_path: Path) -> None:
    model = tmp_path / "models--someone--model"
    shutil.copytree(intact / "transformer", model / "snapshots" / "0123")
    (model / "blobs").mkdir()
    path = model / "snapshots" / "0123" / "model.safetensors"
    path.rename(model / "blobs" / "abc")
    path.symlink_to("../../blobs/abc")
    encoders.load(path.parent)
    (model / "blobs" / "abc").rename(tmp_path / "abc")
    (model / "blobs" / "abc").symlink_to(tmp_path / "abc")
    with pytest.raises(UserError, match="is a link out of its folder"):
        encoders.load(path.parent)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tiny(shape=shape(hidden_size=10**9)), id="hidden size 1e9"),
        pytest.param(lambda: tiny(shape=shape(hidden_size=2 * 10**6)), id="hidden size 2e6"),
        pytest.param(lambda: tiny(shape=shape(num_hidden_layers=10**9)), id="1e9 layers"),
        pytest.param(lambda: tiny(shape=shape(num_hidden_layers=19_999)), id="19,999 layers"),
        pytest.param(lambda: tiny(shape=shape(intermediate_size=10**12)), id="intermediate size 1e12"),
        pytest.param(lambda: tiny(shape=shape(max_position_embeddings=10**10)), id="1e10 positions"),
        pytest.param(lambda: tiny(shape=shape(num_attention_heads=0)), id="no attention head"),
        pytest.param(lambda: tiny(shape=shape(quantization_config={"quant_method": "gptq"})), id="quantised"),
        pytest.param(
            lambda: tiny(shape=shape(_attn_implementation="evil/kernels")), id="attention from the hub, in shape"
        ),
        pytest.param(lambda: tiny(attention="kernels-community/flash-attn2"), id="attention from the hub"),
        pytest.param(lambda: tiny(vocab_size=10**12), id="vocabulary of 1e12"),
        pytest.param(lambda: tiny(max_length=10**30), id="length 1e30"),
        pytest.param(lambda: BiLSTMMax(hidden=10**9, texts=bilstms.texts), id="BiLSTM, hidden size 1e9"),
        pytest.param(
            lambda: BiLSTMMax(hidden=65_536, layers=20_000, min_count=1, texts=bilstms.texts),
            id="BiLSTM, 20,000 layers",
        ),
        pytest.param(lambda: LSTM(layers=10**9, texts=bilstms.texts), id="LSTM, 1e9 layers"),
        pytest.param(lambda: GRU(word_size=10**12, texts=bilstms.texts), id="GRU, word size 1e12"),
        pytest.param(lambda: GRU(vocab_size=10**20, texts=bilstms.texts), id="GRU, vocabulary of 1e20"),
    ],
)
def test_impossible_sizes_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises((UserError, ValueError)) as error:
        make()
    assert len(str(error.value).splitlines()) == 1 and "encoder" in str(error.value)


def test_a_damaged_tokenizer_is_refused_for_a_random_start(intact: Path, tmp_path: Path) -> None:
    shutil.copytree(intact / "transformer", tmp_path / "tokenizer")
    put("tokenizer.json", "{}")(tmp_path / "tokenizer")
    with pytest.raises(UserError, match="tokenizer cannot be opened as a tokenizer"):
        Transformer(weights="random", shape=shape(), tokenizer=tmp_path / "tokenizer")
