"""Identifies an encoder by all that its vectors depend on, so that a cache never returns another one's vectors."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from data.tokenizer import plain_backend
from encoders.base import Encoder
from encoders.random_vectors import RandomVectors
from encoders.saving import class_name

VERSION = 1  # to be raised when a change of the code changes the vectors of encoders


def fingerprint(encoder: Any) -> str:
    """Returns a SHA-256, in hexadecimal, of class, weights, tokenizer, token format, settings and precision.

    It is the same in every process, on every device, and for an encoder that was saved and opened again (a lower
    precision of ``encode`` is not saved). It takes one pass over the weights.
    """
    identity: dict[str, Any] = {"version": VERSION, "class": class_name(encoder)}
    if isinstance(encoder, RandomVectors):
        return _hash(identity | {"dimension": encoder.dimension, "seed": encoder.seed}).hexdigest()
    lower = {} if encoder.precision == "fp32" else {"precision": encoder.precision}
    result = _hash(identity | input_of(encoder) | {"settings": encoder.settings()} | lower)
    for name, weight in sorted(encoder.state_dict().items()):
        result.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
        result.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return result.hexdigest()


def input_of(encoder: Encoder) -> dict[str, Any]:
    """Returns all that turns a text into ``encoder``'s input (tokenizer and token format), as JSON values."""
    form, side = encoder.format, encoder.tokenizer.truncation_side
    return {
        "prefix": form.prefix,
        "suffix": form.suffix,
        "max_length": form.max_length,
        "tokenizer": plain_backend(encoder.tokenizer).to_str(),  # without the truncation that ``encode`` sets
        **({} if side == "right" else {"truncation_side": side}),
    }


def _hash(identity: dict[str, Any]) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
