"""COCO captions and image features of the toolkit's pickles.

A pickle may call any function; here it may name only those that numpy's arrays need. Form and order after
``senteval/rank.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data.errors import reading

FILES = {"train": "train.pkl", "dev": "valid.pkl", "test": "test.pkl"}
CAPTIONS = 5  # of an image, the first ones
NAMES = {
    "numpy.ndarray",
    "numpy.dtype",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.numeric._frombuffer",
    "_codecs.encode",
}


class Captions(NamedTuple):
    """n images of one split and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions per image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]


def captions(folder: Path) -> dict[str, Captions]:
    """Reads train, dev and test; images are in the files' order.

    Raises:
        UserError: if a file cannot be read, or holds anything but plain data and numpy arrays.
    """
    return {split: _split(folder / name) for split, name in FILES.items()}


def _split(path: Path) -> Captions:
    with reading("file of captions", path):
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="latin-1").load()  # strings of Python 2
        images = np.stack([np.asarray(row, np.float32) for row in content["features"]])
        if images.ndim != 2 or not np.isfinite(images).all():
            raise ValueError("features are not rows of finite numbers")
        keys = [content["image_to_caption_ids"][image][:CAPTIONS] for image in range(len(images))]
        if min(map(len, keys)) < CAPTIONS:
            raise ValueError(f"an image has fewer than {CAPTIONS} captions")
        spoken = content["captions"]
        return Captions(images, [[_sentence(spoken[key]["cleaned_caption"]) for key in group] for group in keys])


def _sentence(caption: str) -> str:
    """Returns a caption with a full stop; split only at ASCII blanks, as the toolkit's bytes.split() does."""
    return b" ".join(f"{caption} .".encode(errors="replace").split()).decode()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # of older versions
        if f"{module}.{name}" not in NAMES:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)
