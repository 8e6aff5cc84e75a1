"""Encoder folders that are damaged, of another kind, or have more than is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import encoders
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.concatenated import Concatenated
from encoders.gru import GRU
from tests.encoders import bilstms
from tests.encoders.models import tiny

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the folders of one encoder of each kind."""
    root = tmp_path_factory.mktemp("intact")
    (root / "vectors.txt").write_text("the 1 2\ncat 3 4\n")
    gru = GRU(hidden=4, word_size=3, min_count=1, texts=bilstms.texts)
    words = BagOfWords(vectors=f"{root}/vectors.txt")
    members = {"transformer": tiny(), "gru": gru, "words": words, "both": Concatenated([gru, words])}
    for name, encoder in members.items():
        encoder.save(root / name)
    return root


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def narrow(path: Path) -> None:
    """Halves the last dimension of all weights."""
    save_file({name: weight[..., ::2].contiguous() for name, weight in load_file(path).items()}, path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("transformer", name) for name in (WEIGHTS, "config.json", "tokenizer.json", "modules.json")),
        *(("gru", name) for name in (WEIGHTS, "encoder.json", "tokenizer.json", f"{GRU.network}/{WEIGHTS}")),
        *(("words", name) for name in (WEIGHTS, "encoder.json", "tokenizer.json")),
        *(("both", name) for name in ("encoder.json", "encoder_1/encoder.json")),
    ],
)
def test_damaged_folders_are_named(intact: Path, tmp_path: Path, kind: str, name: str) -> None:
    folder = shutil.copytree(intact / kind, tmp_path / "encoder")
    content = (folder / name).read_bytes()
    damages: list[Callable[[Path], object]] = [cut, lambda path: path.write_text("{}"), Path.unlink]
    damages = damages[:2] if name == "modules.json" else damages
    for damage in [narrow] * (kind != "words" and name.endswith(".safetensors")) + damages:
        damage(folder / name)
        with pytest.raises(UserError) as error:
            encoders.load(folder)
        assert error.value.key.startswith(str(folder)) and "\n" not in str(error.value)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", ["", "~nobody_at_all", "a" * 1000, "a\nb", "\0", "a/b/c", "/dev/null"])
def test_names_that_are_no_encoder_are_refused(name: str) -> None:
    with pytest.raises(UserError):
        encoders.load(name)


def test_a_folder_of_another_encoder_is_refused(intact: Path) -> None:
    with pytest.raises(UserError) as error:
        GRU(path=str(intact / "words"))
    assert error.value.key == str(intact / "words")


def test_weights_of_heads_and_old_buffers_are_ignored(intact: Path, tmp_path: Path) -> None:
    expected = encoders.load(intact / "transformer").encode(["a cat"])
    folder = shutil.copytree(intact / "transformer", tmp_path / "encoder")
    extra = {
        "classifier.dense.weight": torch.ones(2, 32),
        "qa_outputs.bias": torch.ones(2),
        "roberta.pooler.dense.weight": torch.ones(32, 32),
        "roberta.embeddings.position_ids": torch.arange(66)[None],
    }
    save_file(load_file(folder / WEIGHTS) | extra, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "some/model"}')
    np.testing.assert_array_equal(encoders.load(folder).encode(["a cat"]), expected)


def test_weights_of_another_depth_are_refused(intact: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(intact / "transformer", tmp_path / "encoder")
    settings = json.loads((folder / "config.json").read_text())
    for layers in (1, 3):
        (folder / "config.json").write_text(json.dumps(settings | {"num_hidden_layers": layers}))
        with pytest.raises(UserError):
            encoders.load(folder)
