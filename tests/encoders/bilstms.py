"""Small recurrent encoders, and the texts, sentences and token rows that their tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from encoders.bilstm_max import BiLSTMMax
from encoders.recurrent import Recurrent
from tests.checks.encoder import train_tokenizer

TEXTS = [
    "The cat sat on the mat and looked at the dog.",
    "A dog barked at the Cat, and the mat didn't move!",
    "Long-term growth isn't here; nobody said it was.",
]
SENTENCES = [
    "The cat sat.",
    "nothing of it is known",
    "the dog",
    "A dog barked at the mat, and the Cat looked at the dog. " * 3,
    "dog",
    "The cat sat.",
]
ROWS = [np.array(row) for row in ([5, 6, 7], [8], [], [9, 5, 5, 10, 11, 6], [7, 7], [])]


def tiny(kind: type[Recurrent] = BiLSTMMax, **arguments: Any) -> Any:
    torch.manual_seed(3)
    arguments = {"hidden": 4, "word_size": 3, "min_count": 1, **arguments}
    if "path" not in arguments:
        arguments.setdefault("tokenizer", train_tokenizer(kind, TEXTS, **arguments))
    return kind(**arguments)
