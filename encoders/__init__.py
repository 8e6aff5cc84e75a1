"""Text to vectors: ``encoders.load(...)`` opens any encoder, ``.encode(["a sentence"])`` uses it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.errors import UserError
from data.files import read_json
from encoders.base import Encoder

__all__ = ["Encoder", "load"]


def load(
    name: str | Path, *, pooling: str | None = None, layers: int | None = None, device: str | None = None
) -> Encoder:
    """Opens an encoder for use.

    Args:
        name: a name in ``encoders/checkpoints``, a folder (ours, of sentence-transformers or of
            transformers), or a model of the Hugging Face hub; looked for in this order.
        pooling: overrides the folder's own ("mean", "cls", "max" or "last"; "pooler" where weights have BERT's).
        layers: of a transformer, how many of its layers, from the first on, are kept; 0: its embeddings alone.
        device: where to put it; None leaves it on the CPU.

    Raises:
        UserError: if there is no such encoder, or it cannot be opened.
    """
    from encoders import models, offline, pooler, transformer  # here, as transformers takes seconds to import

    folder = offline.CHECKPOINTS / str(name) if str(name) in offline.bundled() else Path(name).expanduser()
    by_pooler = pooling == pooler.POOLER
    own = None if by_pooler else pooling
    options: dict[str, Any] = {"pooling": own, "weights": "pretrained", "device": device}
    if not folder.is_dir():
        if isinstance(name, Path) or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name):
            raise UserError(f"There is no encoder's folder {name}.")
        encoder: Encoder = transformer.Transformer(name=name, **options)
    else:
        marker = folder / offline.MARKER
        kind = _kind(read_json(marker)) if marker.is_file() else transformer.Transformer
        is_transformer = kind is transformer.Transformer
        encoder = transformer.Transformer(path=str(folder), **options) if is_transformer else kind.load(folder)
    if isinstance(encoder, transformer.Transformer):
        if by_pooler:
            encoder.pool_by(pooler.POOLER)
        if layers is not None:
            models.keep_layers(encoder.model, layers)
    elif layers is not None:
        raise UserError(f"{folder} holds a {type(encoder).__name__}: layers= is of transformers.")
    elif pooling is not None:
        if not encoder.poolings:
            raise UserError(f"{folder} holds a {type(encoder).__name__}, whose pooling is fixed.")
        if pooling not in encoder.poolings:
            raise UserError(f"{folder} pools by {' or '.join(encoder.poolings)}. Got {pooling} instead.")
        encoder.pool_by(pooling)
    return encoder.to(device or "cpu")


def _kind(marker: Mapping[str, Any]) -> type[Encoder]:
    """The class that wrote a folder: one of this package, nothing else is imported."""
    module, _, name = marker["class"].rpartition(".")
    if not re.fullmatch(r"encoders\.\w+", module):
        raise UserError(f"The folder was written by {marker['class']}, which is no encoder of this suite.")
    return getattr(importlib.import_module(module), name)
