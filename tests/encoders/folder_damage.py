"""Functions that damage an encoder's folder, and the intact folders that they are applied to."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging as hf_logging

from encoders.bag_of_words import BagOfWords
from encoders.concatenated import Concatenated
from encoders.dense import Dense
from encoders.gru import GRU
from encoders.lstm import LSTM
from tests.encoders import bilstms
from tests.encoders.models import tiny

Damage = Callable[[Path], None]
DEEP = "[" * 100_000


class Evil:
    """Object that creates the file ``path`` when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def save_all(root: Path) -> None:
    """Saves an encoder of each kind below ``root``."""
    torch.manual_seed(0)
    hf_logging.disable_progress_bar()
    encoder = tiny(vocab_size=300)
    encoder.save(root / "transformer")
    tiny("albert", vocab_size=300).save(root / "albert")
    encoder.dense.append(Dense(torch.nn.Linear(32, 8), "Tanh"))
    encoder.dimension = 8
    encoder.save(root / "dense")
    lstm = LSTM(hidden=4, word_size=3, min_count=1, texts=bilstms.texts, require_mask_token=True)
    lstm.save(root / "lstm")
    GRU(hidden=4, word_size=3, min_count=1, texts=bilstms.texts).save(root / "gru")
    bilstms.tiny(layers=2).save(root / "bilstm")
    (root / "vectors.txt").write_text("the 1 2\ncat 3 4\n")
    words = BagOfWords(vectors=str(root / "vectors.txt"))
    words.save(root / "words")
    Concatenated([lstm, words]).save(root / "concatenated")


def put(file: str, content: str | bytes) -> Damage:
    """Creates or replaces a file."""

    def damage(folder: Path) -> None:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())

    return damage


def change(file: str, **values: Any) -> Damage:
    """Sets keys of a JSON file; keys whose value is None are removed."""

    def damage(folder: Path) -> None:
        path = folder / file
        before = json.loads(path.read_text()) if path.is_file() else {}
        after = {key: value for key, value in (before | values).items() if value is not None}
        path.write_text(json.dumps(after))

    return damage


def config(**values: Any) -> Damage:
    """Sets keys of config.json."""
    return change("config.json", **values)


def marker(**values: Any) -> Damage:
    """Sets keys of encoder.json."""
    return change("encoder.json", **values)


def without(*files: str) -> Damage:
    """Removes files."""

    def damage(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return damage


def weights(edit: Callable[[dict[str, torch.Tensor]], object], file: str = "model.safetensors") -> Damage:
    """Edits the weights in a file."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / file)
        edit(tensors)
        save_file(tensors, folder / file, metadata={"format": "pt"})

    return damage


def cut(file: str = "model.safetensors") -> Damage:
    """Truncates a file to half of its length."""

    def damage(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) // 2])

    return damage


def link(file: str, target: str) -> Damage:
    """Replaces a file or folder by a link to ``target``."""

    def damage(folder: Path) -> None:
        shutil.rmtree(folder / file) if (folder / file).is_dir() else (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to(target)

    return damage


def index(**names: str) -> Damage:
    """Replaces the weights by an index that maps them to other files, one of them a pickle."""

    def damage(folder: Path) -> None:
        shutil.move(folder / "model.safetensors", folder.parent / "other.safetensors")
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil(folder.parent / "unpickled")))
        (folder / "model.safetensors").unlink(missing_ok=True)
        (folder / "empty_model.safetensors").write_bytes(b"")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))

    return damage


def table(value: Any, key: str = "model", file: str = "tokenizer.json") -> Damage:
    """Sets a key of a JSON file, by default tokenizer.json."""
    return change(file, **{key: value})


def layer(number: int) -> Callable[[dict[str, torch.Tensor]], None]:
    """Adds a weight of layer ``number`` to the tensors."""

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"roberta.encoder.layer.{number}.output.dense.weight"] = torch.zeros(32, 64)

    return edit


def fill(name: str, value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    """Sets all elements of a tensor to ``value``."""

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = torch.full_like(tensors[name], value)

    return edit
