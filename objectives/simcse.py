"""SimCSE without labels: a sentence finds itself among others, read twice under two masks of dropout.

    l(i) = -log  exp(cos(z_i, z'_i) / t) / sum_{j=1..N} exp(cos(z_i, z'_j) / t)        z = tanh(W E(S) + b)

z and z' are the vectors of the first and second pass. Gao, Yao and Chen (2021), section 3, equation 4. It has one
direction: first passes choose among the N second ones, and are not compared with each other as in NT-Xent.

W is for training alone and dropped at export; the paper's E(S) is the state of [CLS] (table 6: "w/ MLP (train)").
Held-out losses are measured with dropout (ours: without it both passes are the same, and the pair's cosine is 1).
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
from data.loader import Units
from data.ranges import AtLeast2, AtLeast3, Positive
from data.token_format import TokenFormat
from data.views.perturbations import STUDIED
from encoders.base import Encoder
from objectives.base import Loss, Needs, Objective
from objectives.functional import at_least_float32, choose_first, in_batch_scores
from objectives.gather import gather_rows

PASSES = ("first", "second")
PROBED = (8, 16)  # rows and tokens of what is read to find out whether there is dropout
MASKS = 1  # seed of the masks where losses are measured

CITATION = """@inproceedings{gao-etal-2021-simcse,
  title = {{SimCSE}: Simple Contrastive Learning of Sentence Embeddings},
  author = {Gao, Tianyu and Yao, Xingcheng and Chen, Danqi},
  booktitle = {Proceedings of EMNLP},
  year = {2021},
  pages = {6894--6910}
}"""


def one_directional(first: Tensor, second: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each first vector's choice of its own second one, by cosine, and how often it is right.

    Args:
        first, second: of shape (N, D), N > 1; row i of both belongs together.
        temperature: divides the cosine similarities.

    Returns:
        The mean over N, a scalar, and a detached scalar, at least in float32 whatever the inputs' type.
    """
    first, second = (F.normalize(at_least_float32(vectors), dim=1) for vectors in (first, second))
    return choose_first(in_batch_scores(first, second, len(first)) / temperature)


class SimCSE(Objective):
    """The unsupervised form. The encoder must have dropout: nothing else makes two passes differ.

    Args:
        batch_size: N, sentences of a micro-batch over all processes.
        temperature: t.
        max_length: tokens of a sentence that are read, special ones included.

    Raises:
        ValueError: if an argument is out of range.
    """

    citation = CITATION

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
        self.head: nn.Module | None = None
        self.lengths = np.zeros(1, np.int64)  # of sentences, in content tokens

    @property
    def part_names(self) -> tuple[str, ...]:
        return "contrastive", "contrastive_accuracy"

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    def study(self, units: Units, indices: np.ndarray) -> None:
        """Measures how long sentences are (at most ``STUDIED`` of them, evenly spaced)."""
        some = indices[:: -(-len(indices) // STUDIED)]
        self.lengths = np.array([len(units[int(i)]) for i in some])

    def require(self, encoder: Encoder) -> None:
        """Refuses an encoder without dropout.

        Raises:
            UnfitError: saying so.
        """
        super().require(encoder)
        if _repeats_itself(encoder):
            raise UnfitError(
                "objective=simcse needs dropout, or both passes of a sentence are the same, and this encoder has "
                "none: set encoder.dropout=0.1 (a gru drops between layers: encoder.layers=2), or take an encoder "
                "that has it."
            )

    def build(self, encoder: Encoder) -> None:
        """Makes the map W."""
        # Torch's first weights deviate by 1 / sqrt(3 D), at D = 768 the 0.02 that the published program has.
        self.head = nn.Sequential(nn.Linear(encoder.dimension, encoder.dimension), nn.Tanh())

    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        """Token ids of the sentence, of shape (T,); nothing in it is random."""
        return format.wrap(unit[: self.max_length - len(format.prefix) - len(format.suffix)])

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        block = Tokens.pad(examples, format.pad_id)
        return Batch(dict.fromkeys(PASSES, block), size=len(examples))  # read twice, counted twice

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert self.head is not None, "build comes first"
        passes = [batch.tokens[name] for name in PASSES]
        with _dropout(encoder):
            vectors = encoder.vectors(Tokens.cat(passes, encoder.format.pad_id))  # (2B, D)
        first, second = (gather_rows(half) for half in at_least_float32(self.head(vectors)).chunk(2))
        loss, right = one_directional(first, second, temperature=self.temperature)
        return Loss(loss, dict(zip(self.part_names, (loss.detach(), right), strict=True)))

    def step_flops(self, encoder: Encoder) -> float:
        """Of sentences as long as those that ``study`` found."""
        rows, marks = 2 * self.batch_size, len(encoder.format.prefix) + len(encoder.format.suffix)
        length = float(np.minimum(self.lengths + marks, self.max_length).mean())
        flops = encoder.forward_flops(round(rows * length), length) + 2.0 * rows * encoder.dimension**2
        return 3 * flops  # forward, and twice as much backward

    def chances(self) -> dict[str, float]:
        return dict(zip(self.part_names, (math.log(self.batch_size), 1 / self.batch_size), strict=True))

    def facts(self) -> dict[str, Any]:
        return {"negatives per anchor": self.batch_size - 1}


@contextmanager
def _dropout(encoder: Encoder) -> Iterator[None]:
    """Within it the encoder has dropout, as in training.

    Where it is measured the masks are the same each time. Dropout draws from torch's global generator, as it takes
    no other: that is seeded in here, and afterwards is as it was.
    """
    if encoder.training:
        yield
        return
    device = next(encoder.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(MASKS)
        encoder.train()
        try:
            yield
        finally:
            encoder.eval()


def _repeats_itself(encoder: Encoder) -> bool:
    """Whether equal rows have equal vectors in training; asked of the encoder itself, as a key may do nothing."""
    rows, length = PROBED
    row = encoder.format.wrap(np.arange(length) % encoder.format.vocab_size)
    tokens = Tokens.pad([row] * rows, encoder.format.pad_id).to(next(encoder.parameters()).device)
    training = encoder.training
    encoder.eval()  # so that the masks are our own
    try:
        with torch.no_grad(), _dropout(encoder):
            vectors = encoder(tokens).sentence
    finally:
        encoder.train(training)
    return torch.allclose(vectors, vectors[:1], rtol=1e-4, atol=1e-6)
