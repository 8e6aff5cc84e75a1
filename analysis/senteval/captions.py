"""COCO captions and image features of the toolkit's pickles.

A pickle may call any function; here it may name only those that numpy's arrays need. Form and order after
``senteval/rank.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.senteval.loaders import Files, ascii_tokens
from data.errors import reading

CAPTIONS = 5  # of an image, the first ones
ALLOWED = {
    "numpy.ndarray",
    "numpy.dtype",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "_codecs.encode",
}


class Captions(NamedTuple):
    """n images of one part and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions per image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]


def captions(files: Files) -> dict[str, Captions]:
    """Reads train, dev and test; images are in the files' order.

    Raises:
        UserError: if a file cannot be read, or holds anything but plain data and numpy arrays.
    """
    return {part: _read(*paths) for part, paths in files.items()}


def _read(path: Path) -> Captions:
    with reading("file of captions", path):
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="latin-1").load()  # strings of Python 2
        images = np.asarray(content["features"], np.float32)
        if images.ndim != 2 or not np.isfinite(images).all():
            raise ValueError("features are not rows of finite numbers")
        keys = [content["image_to_caption_ids"][image][:CAPTIONS] for image in range(len(images))]
        if min(map(len, keys)) < CAPTIONS:
            raise ValueError(f"an image has fewer than {CAPTIONS} captions")
        texts = content["captions"]
        return Captions(
            images,
            [[" ".join(ascii_tokens(f"{texts[key]['cleaned_caption']} .")) for key in group] for group in keys],
        )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # of older versions
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)
