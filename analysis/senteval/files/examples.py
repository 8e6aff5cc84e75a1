"""Examples of a task: sentences, pairs of sentences or captioned images, in the toolkit's order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Examples(NamedTuple):
    """n examples of one split, sorted as in the toolkit before it makes folds.

    Attributes:
        first: n sentences, tokens joined by one space; an empty sentence is ".".
        second: n sentences likewise; empty for tasks on single sentences.
        targets: classes 0 .. C-1 (int64) or gold scores (float64), of shape (n,).
    """

    first: list[str]
    second: list[str]
    targets: np.ndarray


class Captions(NamedTuple):
    """n images of one split and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions per image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]
