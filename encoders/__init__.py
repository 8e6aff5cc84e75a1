"""Sentence encoders: ``encoders.load(...)`` opens one, ``.encode(["a sentence"])`` returns vectors."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from data.display import nearest_model
from data.errors import UserError, reading
from encoders.base import Encoder
from encoders.folder import BUNDLED, MARKER, read_marker
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
        name: a name in ``encoders/checkpoints``, a folder (of this suite, of sentence-transformers or of
            transformers), or a model of the Hugging Face hub; looked for in this order.
        pooling: "mean", "cls", "max" or "last", or "pooler" if the weights have BERT's; None: the folder's own.
        layers: number of a transformer's first layers to keep; 0: only its embeddings; None: all.
        device: device of the encoder; None: the CPU.
        precision: precision of matrix products in ``encode``: "fp32", or on a GPU the faster "tf32" or "bf16".

    Raises:
        UserError: if there is no such encoder, it cannot be opened, or it does not support an argument.
    """
    from encoders import models, starts, transformer  # late, as transformers takes seconds to import

    with reading("encoder", name):
        folder = starts.CHECKPOINTS / str(name) if str(name) in starts.bundled() else Path(name).expanduser()
        encoder: Encoder
        if (folder / MARKER).is_file():
            encoder = _encoder_class(folder).load(folder)
        elif folder.is_dir():
            encoder = transformer.Transformer.load(folder)
        else:
            near = nearest_model(str(name), starts.bundled())
            if near or not re.fullmatch(HUB_NAME, str(name)):
                raise UserError("no such encoder", key=str(name), hint=f"Did you mean {near}?" if near else "")
            encoder = transformer.Transformer(name=str(name), weights="pretrained")
        if pooling is not None:
            encoder.pool_by(pooling)
        if layers is not None:
            if not isinstance(encoder, transformer.Transformer):
                raise UserError(f"a {type(encoder).__name__} has none to leave out", key=f"layers={layers}")
            models.keep_layers(encoder.model, layers)
        encoder = encoder.to(device or "cpu")
        encoder.encode_in(precision)
        return encoder


def _encoder_class(folder: Path) -> type[Encoder]:
    """Returns the class that wrote ``folder``, which must be an encoder of this package; imports nothing else."""
    name = str(read_marker(folder)["class"])
    module, _, last = name.rpartition(".")
    kind = getattr(importlib.import_module(module), last) if re.fullmatch(r"encoders\.[a-z]\w*", module) else None
    if not (isinstance(kind, type) and issubclass(kind, Encoder)):
        raise UserError(f"{name} is no encoder of this suite", key=str(folder))
    return kind
