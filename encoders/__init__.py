"""Sentence encoders: ``encoders.load(...)`` opens one, ``.encode(["a sentence"])`` returns vectors."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import torch

from data.display import nearest_model, printable
from data.errors import UserError, opening
from encoders.base import Encoder
from encoders.folder import BUNDLED, MARKER, read_marker
from encoders.kernels import Precision
from encoders.pooling import POOLER, POOLINGS

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
        name: a name in ``encoders/checkpoints``, a folder (of this suite, of sentence-transformers or of
            transformers), or a model of the Hugging Face hub; looked for in this order.
        pooling: "mean", "cls", "max" or "last", or "pooler" if the weights have BERT's; None: the folder's own.
        layers: number of a transformer's first layers to keep; 0: only its embeddings; None: all.
        device: device of the encoder; None: the CPU.
        precision: precision of matrix products in ``encode``: "fp32", or on a GPU the faster "tf32" or "bf16".

    Raises:
        UserError: if there is no such encoder, it cannot be opened, or the device does not support the precision.
    """
    from encoders import starts

    if not isinstance(name, (str, Path)):
        raise UserError(f"encoders.load takes a name or a folder. Got {name!r:.200} instead.")
    with opening(repr(str(name))[:200]):
        folder = starts.CHECKPOINTS / str(name) if str(name) in starts.bundled() else Path(name).expanduser()
        is_folder = bool(str(name)) and folder.is_dir()
    if not is_folder and (near := nearest_model(str(name), starts.bundled())):
        raise UserError(f"There is no encoder {printable(str(name))}. Did you mean {near}?")
    if pooling not in (None, POOLER, *POOLINGS):
        raise UserError(f"pooling must be {', '.join(POOLINGS)} or {POOLER}. Got {pooling!r:.50} instead.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"device={device}: torch finds no such device here; device='cpu' always works.") from None
    from encoders import models, transformer  # late, as transformers takes seconds to import

    by_pooler = pooling == POOLER
    own = None if by_pooler else pooling
    options: dict[str, Any] = {"pooling": own, "weights": "pretrained", "device": device}
    if not is_folder:
        if not isinstance(name, str) or folder.is_file() or not re.fullmatch(HUB_NAME, name):
            raise UserError(f"{printable(str(name)) or repr(''):.200}: there is no such folder.")
        encoder: Encoder = transformer.Transformer(name=name, **options)
    else:
        kind = _encoder_class(folder) if (folder / MARKER).is_file() else transformer.Transformer
        is_transformer = kind is transformer.Transformer
        encoder = transformer.Transformer(path=str(folder), **options) if is_transformer else kind.load(folder)
    if isinstance(encoder, transformer.Transformer):
        if by_pooler:
            encoder.pool_by(POOLER)
        if layers is not None:
            models.keep_layers(encoder.model, layers)
    elif layers is not None:
        raise UserError(f"{folder} holds a {type(encoder).__name__}: layers= is for transformers.")
    elif pooling is not None:
        if not encoder.poolings:
            raise UserError(f"{folder} holds a {type(encoder).__name__}, whose pooling is fixed.")
        if pooling not in encoder.poolings:
            raise UserError(f"{folder} pools by {' or '.join(encoder.poolings)}. Got {pooling} instead.")
        encoder.pool_by(pooling)
    encoder = encoder.to(device or "cpu")
    encoder.encode_in(precision)
    return encoder


def _encoder_class(folder: Path) -> type[Encoder]:
    """Returns the class that wrote ``folder``, which must be an encoder of this package; imports nothing else."""
    with opening(folder):
        name = read_marker(folder)["class"]
    module, _, last = name.rpartition(".")
    kind = None
    if re.fullmatch(r"encoders\.[a-z]\w*", module) and importlib.util.find_spec(module):
        kind = getattr(importlib.import_module(module), last, None)
    if not (isinstance(kind, type) and issubclass(kind, Encoder)) or inspect.isabstract(kind):
        raise UserError(f"{folder} was written by {printable(name):.200}, which is no encoder of this suite.")
    return kind
