"""COCO captions and image features of the toolkit's pickles.

A pickle may call any function; here it may name only those that numpy's arrays need. Form and order after
``senteval/rank.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from analysis.senteval.loaders import Examples, Files, ascii_tokens
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


def captions(files: Files) -> dict[str, Examples]:
    """Reads train, dev and test, in the files' order: five captions an image, and the images' features as targets.

    Raises:
        UserError: if a file cannot be read, or holds anything but plain data and numpy arrays.
    """
    return {part: _read(*paths) for part, paths in files.items()}


def _read(path: Path) -> Examples:
    with reading("file of captions", path):
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="latin-1").load()  # strings of Python 2
        images, numbers = np.asarray(content["features"], np.float32), content["image_to_caption_ids"]
        keys = [key for image in range(len(images)) for key in numbers[image][:CAPTIONS]]
        if len(keys) < CAPTIONS * len(images):
            raise ValueError(f"an image has fewer than {CAPTIONS} captions")
        texts = (content["captions"][key]["cleaned_caption"] for key in keys)
        return Examples([" ".join(ascii_tokens(f"{text} .")) for text in texts], [], images)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # of older versions
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)
