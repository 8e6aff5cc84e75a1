"""Encoder folders: names of their files, the marker of this suite, weights (safetensors only)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import Tensor

from data.batch import Tokens
from data.display import printable
from data.errors import UserError
from data.files import read_json
from data.tokenizer import check_vocabulary

BUNDLED = "modernbert-mini-2"  # the checkpoint that training starts from without network (encoder=bundled)
MARKER = "encoder.json"  # of this suite, beside sentence-transformers' files
WEIGHTS = "model.safetensors"
HEAD = "mlm_head.safetensors"  # a file of its own, as other libraries would report its weights as unexpected
NO_LIMIT = 1_000_000  # tokens of an input; stands for "unlimited"


@dataclass
class Marker:
    """Keys of ``encoder.json`` that all encoders have, beside "class"."""

    weights: Literal["pretrained", "own", "bundled", "random"]
    origin: str


def class_name(encoder: object) -> str:
    """Returns the name under which ``encoder.json`` holds the class of ``encoder``."""
    return f"{type(encoder).__module__}.{type(encoder).__name__}"


def read_marker(folder: Path, kind: type[Marker] = Marker) -> dict[str, Any]:
    """Returns the content of the folder's ``encoder.json``.

    Raises:
        UserError: if it cannot be read, lacks a key or has one of another type than ``kind``.
    """
    marker: dict[str, Any] = read_json(folder / MARKER, kind)
    return marker | {"origin": printable(marker["origin"])}


def continued(folder: Path, marker: dict[str, Any]) -> str:
    """Returns the origin of weights that were read from ``folder``."""
    return f"continued from {folder}; before that: {marker['origin']}"


def refuse_other(folder: Path) -> None:
    """Refuses to replace ``folder`` unless it is an encoder's, empty or not there.

    Raises:
        UserError: if it is something else.
    """
    if folder.exists() and not (folder / MARKER).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise UserError("exists and is not an encoder's folder: name another one", key=str(folder))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the weights in a safetensors file by name, as float32.

    Raises:
        OSError, SafetensorError: if there is no such file, or it holds something else.
    """
    return {name: weight.float() for name, weight in load_file(path).items()}


def require_finite(weight: Tensor, name: str) -> None:
    """Refuses a ``weight`` with a number that is not finite.

    Raises:
        UserError: with ``name``.
    """
    if not bool(weight.isfinite().all()):
        raise UserError("not all numbers are finite", key=name)


def read_table(folder: Path, name: str, tokenizer: Any) -> Tensor:
    """Returns the vectors of a tokenizer's words, of shape (V, E), which the folder's weights hold as ``name``.

    Raises:
        ValueError: if their number is not that of the words.
    """
    table = read_weights(folder / WEIGHTS)[name]
    if len(tokenizer) != len(table):
        raise ValueError(f"{len(tokenizer)} words and {len(table)} vectors")
    check_vocabulary(tokenizer, len(table))
    return table


def try_out(encoder: Any) -> None:
    """Refuses an encoder that opens but cannot encode.

    Raises:
        ValueError: if an input has no room for a word, or vectors are not finite or not of its dimension.
    """
    with torch.no_grad():
        if encoder.format.max_content < 1:
            raise ValueError(f"an input of {encoder.format.max_length} tokens has no room for a word")
        tokens = Tokens.pad([encoder.format.wrap([0])], encoder.format.pad_id)
        vector = encoder(tokens).sentence
        if vector.shape != (1, encoder.dimension) or not bool(vector.isfinite().all()):
            raise ValueError(f"its vectors are not finite, or not of size {encoder.dimension}")
