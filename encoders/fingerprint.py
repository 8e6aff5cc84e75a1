"""Identifies an encoder by everything that its vectors depend on, so that kept vectors are never another's."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from data.tokenizer import plain_backend
from encoders.base import Encoder
from encoders.folder import class_name
from encoders.random_vectors import RandomVectors

VERSION = 1  # to be raised with a change of this package after which encoders give other vectors


def fingerprint(encoder: Encoder | RandomVectors) -> str:
    """Returns a SHA-256, in hexadecimal, of class, weights, tokenizer, token format, settings and precision.

    It is the same in every process, on every device, and for an encoder that was saved and opened again (a lower
    precision of ``encode`` is not saved). It takes one pass over the weights.
    """
    said: dict[str, Any] = {"version": VERSION, "class": class_name(encoder)}
    if isinstance(encoder, RandomVectors):
        return _hash(said | {"dimension": encoder.dimension, "seed": encoder.seed}).hexdigest()
    lower = {} if encoder.precision == "fp32" else {"precision": encoder.precision}
    result = _hash(said | input_of(encoder) | {"settings": encoder.settings()} | lower)
    for name, weight in sorted(encoder.state_dict().items()):
        result.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
        result.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return result.hexdigest()


def input_of(encoder: Encoder) -> dict[str, Any]:
    """Returns what the way from a text to ``encoder``'s input depends on, as JSON values."""
    form = encoder.format
    return {
        "prefix": form.prefix,
        "suffix": form.suffix,
        "max_length": form.max_length,
        "tokenizer": plain_backend(encoder.tokenizer).to_str(),  # encoding leaves its limit in the original
    }


def _hash(said: dict[str, Any]) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode())
