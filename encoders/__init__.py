"""Text to vectors: ``encoders.load(...)`` opens any encoder, ``.encode(["a sentence"])`` uses it."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

from data.display import nearest_model, printable
from data.errors import UserError
from encoders.base import Encoder
from encoders.folder import BUNDLED, MARKER, read_marker, readable
from encoders.kernels import Precision

__all__ = ["BUNDLED", "Encoder", "load"]

HUB_NAME = r"[\w-][\w.-]{,95}(/[\w.-]{1,95})?"


def load(
    name: str | Path,
    *,
    pooling: str | None = None,
    layers: int | None = None,
    device: str | None = None,
    precision: Precision = "fp32",
) -> Encoder:
    """Opens an encoder for use.

    Args:
        name: a name in ``encoders/checkpoints``, a folder (ours, of sentence-transformers or of
            transformers), or a model of the Hugging Face hub; looked for in this order.
        pooling: overrides the folder's own ("mean", "cls", "max" or "last"; "pooler" where weights have BERT's).
        layers: of a transformer, how many of its layers, from the first on, are kept; 0: its embeddings alone.
        device: where to put it; None leaves it on the CPU.
        precision: of products in ``encode``: "fp32", "tf32" (of GPUs) or "bf16", which are faster on a GPU.

    Raises:
        UserError: if there is no such encoder, it cannot be opened, or the device does not have the precision.
    """
    from encoders import offline

    with readable(repr(str(name))[:200]):
        folder = offline.CHECKPOINTS / str(name) if str(name) in offline.bundled() else Path(name).expanduser()
        there = bool(str(name)) and folder.is_dir()
    if not there and (near := nearest_model(str(name), offline.bundled())):
        raise UserError(f"There is no encoder {printable(str(name))}. Did you mean {near}?")
    from encoders import models, pooler, transformer  # here, as transformers takes seconds to import

    by_pooler = pooling == pooler.POOLER
    own = None if by_pooler else pooling
    options: dict[str, Any] = {"pooling": own, "weights": "pretrained", "device": device}
    if not there:
        if not isinstance(name, str) or folder.is_file() or not re.fullmatch(HUB_NAME, name):
            raise UserError(f"There is no encoder's folder {printable(str(name)) or repr(''):.200}.")
        encoder: Encoder = transformer.Transformer(name=name, **options)
    else:
        kind = _kind(folder) if (folder / MARKER).is_file() else transformer.Transformer
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
    encoder = encoder.to(device or "cpu")
    encoder.encode_in(precision)
    return encoder


def _kind(folder: Path) -> type[Encoder]:
    """The class that wrote ``folder``: an encoder of this package, nothing else is imported."""
    with readable(folder):
        name = read_marker(folder)["class"]
    module, _, last = name.rpartition(".")
    kind = None
    if re.fullmatch(r"encoders\.[a-z]\w*", module) and importlib.util.find_spec(module):
        kind = getattr(importlib.import_module(module), last, None)
    if not (isinstance(kind, type) and issubclass(kind, Encoder)) or inspect.isabstract(kind):
        raise UserError(f"{folder} was written by {printable(name):.200}, which is no encoder of this suite.")
    return kind
