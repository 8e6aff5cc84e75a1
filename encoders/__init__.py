"""Sentence encoders: ``encoders.load(...)`` opens one, ``.encode(["a sentence"])`` returns vectors."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from data.errors import UserError, reading
from encoders.base import Encoder
from encoders.hub import BUNDLED, CHECKPOINTS, list_bundled
from encoders.kernels import Precision
from encoders.saving import MARKER, encoder_class

__all__ = ["BUNDLED", "Encoder", "load"]


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
        name: a name in ``encoders/checkpoints``, a folder (of a run, an encoder of this suite, of
            sentence-transformers or of transformers), or a model of the Hugging Face hub, in this order.
        pooling: "mean", "cls", "max" or "last", and of transformers "first_last" or, if the weights have BERT's,
            "pooler"; None: the folder's own.
        layers: number of a transformer's first layers to keep; 0: only its embeddings; None: all.
        device: device of the encoder; None: the CPU.
        precision: precision of matrix products in ``encode``: "fp32", or on a GPU the faster "tf32" or "bf16".

    Raises:
        UserError: if there is no such encoder, it cannot be opened, or it does not support an argument.
    """
    from encoders.transformer import Transformer  # late, as transformers takes seconds to import

    with reading("encoder", name):
        folder = CHECKPOINTS / str(name) if str(name) in list_bundled() else Path(name).expanduser()
        encoder: Encoder
        if folder.is_dir():
            folder = run if (run := folder / "encoder").is_dir() else folder
            kind = encoder_class(folder) if (folder / MARKER).is_file() else Transformer
            encoder = kind.load(folder)
        else:
            near = get_close_matches(str(name), list_bundled(), 1, 0.8)
            if near or len(folder.parts) > 2:  # the hub has <owner>/<name>
                hint = f"Did you mean {near[0]}?" if near else ""
                raise UserError("no such encoder", key=str(name), hint=hint)
            encoder = Transformer(name=str(name), weights="pretrained")
        if pooling is not None:
            encoder.pool_by(pooling)
        if layers is not None:
            encoder.keep_layers(layers)
        for part in encoder.modules():
            if isinstance(part, Encoder):
                part.precision = precision
    with reading("device", str(device)):
        return encoder.to(device or "cpu")
