"""What a task's files hold: sentences, pairs of sentences or captioned images, in the toolkit's order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Examples(NamedTuple):
    """n examples of one split, sorted as the toolkit sorts them before it makes folds.

    Attributes:
        first: n sentences, tokens joined by one blank; an empty one is ".".
        second: n sentences likewise; empty for tasks of single sentences.
        targets: of shape (n,): classes 0 .. C-1 (int64) or gold scores (float64).
    """

    first: list[str]
    second: list[str]
    targets: np.ndarray


class Captions(NamedTuple):
    """n images of one split and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions an image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]
