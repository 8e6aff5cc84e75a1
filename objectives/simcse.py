"""Unsupervised SimCSE: a sentence is encoded twice, with different dropout, and found again in the batch.

    l(i) = -log  exp(cos(z_i, z'_i) / t) / sum_{j=1..N} exp(cos(z_i, z'_j) / t)        z = tanh(W E(S) + b)

z and z' are the vectors of the first and second pass. Gao, Yao and Chen (2021), section 3, equation 4. The loss
has one direction: each first vector is compared with the N second ones, but not with other first ones as in
NT-Xent.

W is only used in training and dropped at export; the paper's E(S) is the state of [CLS] (table 6: "w/ MLP
(train)"). Held-out losses are computed with dropout (our choice: without it both passes are equal).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Batch, Tokens
from data.errors import UnfitError
from data.ranges import AtLeast2, AtLeast3, Positive
from data.token_format import TokenFormat
from encoders.base import Encoder
from objectives.base import Loss, Objective, Requirements, evaluating
from objectives.functional import at_least_float32, choose_first, in_batch_scores
from objectives.gather import gather_rows

PASSES = ("first", "second")
PROBE = (8, 16)  # rows and tokens of the batch that shows whether an encoder has dropout
DROPOUT_SEED = 1  # of the dropout in held-out losses

CITATION = """@inproceedings{gao-etal-2021-simcse,
  title = {{SimCSE}: Simple Contrastive Learning of Sentence Embeddings},
  author = {Gao, Tianyu and Yao, Xingcheng and Chen, Danqi},
  booktitle = {Proceedings of EMNLP},
  year = {2021},
  pages = {6894--6910}
}"""


def one_directional(first: Tensor, second: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Computes the cross-entropy of finding each first vector's second one by cosine, and the accuracy.

    Args:
        first, second: of shape (N, D), N > 1; row i of both forms a pair.
        temperature: divides the cosine similarities.

    Returns:
        The mean over N, a scalar, and the accuracy, a detached scalar; both in float32 or float64.
    """
    first, second = (F.normalize(at_least_float32(vectors), dim=1) for vectors in (first, second))
    return choose_first(in_batch_scores(first, second, len(first)) / temperature)


class SimCSE(Objective):
    """Unsupervised SimCSE. The encoder must have dropout, which is all that makes two passes differ.

    Args:
        batch_size: N, sentences of a micro-batch over all processes.
        temperature: t, which divides the cosine similarities.
        max_length: most tokens of a sentence that are read, special tokens included.
    """

    citation = CITATION
    formula = (
        r"l(i) = -\log \dfrac{\exp(\cos(z_i, z'_i) / t)}{\sum_{j=1}^{N} \exp(\cos(z_i, z'_j) / t)}"
        r" \qquad z = \tanh(W\, E(S) + b)"
    )
    part_names = ("contrastive", "contrastive_accuracy")
    requirements = Requirements(unit="sentence")
    head: nn.Module

    def __init__(
        self,
        *,
        batch_size: AtLeast2 = 64,
        temperature: Positive = 0.05,
        max_length: AtLeast3 = 32,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.temperature = temperature
        self.max_length = max_length

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder without dropout.

        Raises:
            UnfitError: if so.
        """
        super().check_encoder(encoder)
        if _is_deterministic(encoder):
            raise UnfitError(
                "without dropout both passes of a sentence are the same",
                key="encoder.dropout",
                hint="Recurrent encoders apply dropout between layers: encoder.dropout=0.1 encoder.layers=2.",
            )

    def build(self, encoder: Encoder) -> None:
        """Adds the head tanh(W e + b)."""
        # Torch initialises W with a standard deviation of 1 / sqrt(3 D): at D = 768 the published program's 0.02.
        self.head = nn.Sequential(nn.Linear(encoder.dimension, encoder.dimension), nn.Tanh())

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        """Returns the token ids of the sentence, of shape (T,); nothing is random."""
        return format.wrap(unit[: self.max_length - len(format.prefix) - len(format.suffix)])

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        block = Tokens.pad(examples, format.pad_id)
        return Batch(dict.fromkeys(PASSES, block), size=len(examples))  # read and counted twice

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        passes = [batch.tokens[name] for name in PASSES]
        with _dropout(encoder):
            vectors = encoder.vectors(Tokens.cat(passes, encoder.format.pad_id))  # (2B, D)
        first, second = (gather_rows(half) for half in at_least_float32(self.head(vectors)).chunk(2))
        loss, right = one_directional(first, second, temperature=self.temperature)
        return Loss(loss, dict(zip(self.part_names, (loss.detach(), right), strict=True)))

    def chance_levels(self, size: int) -> dict[str, float]:
        return dict(zip(self.part_names, (math.log(size), 1 / size), strict=True))

    def facts(self) -> dict[str, Any]:
        return {"negatives per anchor": self.batch_size - 1}


@contextmanager
def _dropout(encoder: Encoder) -> Iterator[None]:
    """Gives the encoder dropout as in training.

    In an evaluation the dropout masks are the same each time. Dropout takes no generator but torch's global one,
    which is seeded inside and restored afterwards.
    """
    if encoder.training:
        yield
        return
    device = next(encoder.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(DROPOUT_SEED)
        encoder.train()
        try:
            yield
        finally:
            encoder.eval()


def _is_deterministic(encoder: Encoder) -> bool:
    """Returns whether equal rows get equal vectors in training: tried out, as a dropout key may have no effect."""
    rows, length = PROBE
    row = encoder.format.wrap(np.arange(length) % encoder.format.vocab_size)
    tokens = Tokens.pad([row] * rows, encoder.format.pad_id).to(next(encoder.parameters()).device)
    with evaluating(encoder), _dropout(encoder):  # which seeds the masks in an evaluation only
        vectors = encoder(tokens).sentence
    return torch.allclose(vectors, vectors[:1], rtol=1e-4, atol=1e-6)
