r"""Quick-Thoughts: which sentences of a passage are neighbours of this one (Logeswaran and Lee 2018).

    l(i) = - 1 / |C_i|  sum_{j in C_i}  log  exp(f(s_i) . g(s_j)) / sum_{k != i} exp(f(s_i) . g(s_k))

s_1 .. s_B are a batch, one sentence after another as the corpus has them, and C_i are those within ``window`` of i
in it. "An efficient framework for learning sentence representations", section 3: two encoders f and g, which are
concatenated afterwards. As its program has it:

- a run goes across the ends of documents, whose last sentence then counts as a neighbour of the next one's first;
- the targets of a sentence share its probability, and those at the ends of a batch have fewer of them.

That program sets a sentence's score with itself to 0, so that it stays in the sum; here it is left out, as in the
paper, whose candidates are other sentences. A sentence that the corpus' rules leave out (``sentences.*``) stands
beside none: its neighbours are each other's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.batch import Batch, Tokens
from data.errors import UserError
from data.loader import Units
from data.ranges import Size
from data.token_format import TokenFormat
from data.views.perturbations import count_tokens
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from objectives.base import Corpus, Loss, Material, Needs, Objective
from objectives.functional import at_least_float32
from objectives.gather import gather_rows

READERS = ("f", "g")  # the encoders, the second of which reads candidates

CITATION = """@inproceedings{logeswaran-lee-2018-quick-thoughts,
  title = {An efficient framework for learning sentence representations},
  author = {Logeswaran, Lajanugen and Lee, Honglak},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


def choose_neighbours(sources: Tensor, candidates: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """The module's equation, and how often the best candidate is a neighbour.

    Args:
        sources, candidates: f and g of B sentences in their order, of shape (B, D).
        window: sentences on either side that are neighbours, below B.

    Returns:
        The mean of l over the B sentences, a scalar, at least float32; and a detached share of 0 .. 1.
    """
    place = torch.arange(len(sources), device=sources.device)
    apart = (place[:, None] - place).abs()  # (B, B)
    near = (apart > 0) & (apart <= window)
    with torch.autocast(sources.device.type, enabled=False):
        scores = at_least_float32(sources) @ at_least_float32(candidates).T
        scores = scores.masked_fill(apart == 0, -torch.inf).log_softmax(dim=1)
        loss = -(scores.masked_fill(~near, 0.0).sum(dim=1) / near.sum(dim=1)).mean()
    right = near.gather(1, scores.argmax(dim=1, keepdim=True))
    return loss, right.to(loss.dtype).mean()


class QuickThoughts(Objective):
    """Two encoders beside each other, and nothing but their dot products.

    Args:
        batch_size: sentences of a micro-batch over all processes, one after another.
        window: sentences on either side that are neighbours.

    Raises:
        ValueError: if an argument is out of range.
    """

    citation = CITATION
    part_names = ("neighbour", "neighbour_accuracy")

    def __init__(self, *, batch_size: Size = 400, window: Size = 1) -> None:
        super().__init__()
        self.window = window
        self.batch_size = batch_size
        self.mean_length = 0.0
        if batch_size < self._least:
            raise ValueError(
                f"objective.batch_size must be at least {self._least}: with objective.window={window} a sentence "
                f"has {2 * window} neighbours, and others to tell them from. Got {batch_size} instead."
            )

    @property
    def _least(self) -> int:
        """Sentences of a batch in which each has one that is no neighbour."""
        return 2 * self.window + 2

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence", encoders=2)

    def materials(self, corpus: Corpus) -> Mapping[str, Material]:
        """The run's sentences, batches of which are to be runs of neighbours."""
        return {name: found._replace(contiguous=True) for name, found in super().materials(corpus).items()}

    def study(self, units: Units, indices: np.ndarray) -> None:
        _, self.mean_length = count_tokens(units, indices)

    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> np.ndarray:
        """The sentence as the encoder reads it, of shape (T,); nothing in it is random."""
        return format.wrap(unit)

    def collate(self, examples: list[np.ndarray], format: TokenFormat) -> Batch:
        block = Tokens.pad(examples, format.pad_id)
        return Batch(dict.fromkeys(READERS, block), size=len(examples))  # read by two encoders, counted twice

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert isinstance(encoder, Concatenated), "the experiment builds what needs.encoders asks for"
        sources, candidates = (
            gather_rows(at_least_float32(member.vectors(batch.tokens[name])))
            for name, member in zip(READERS, encoder.members, strict=True)
        )
        if len(sources) < self._least:
            raise UserError(
                f"A batch of {len(sources)} sentences has none to choose among besides neighbours; "
                f"{self._least} are right: raise corpus.dev_fraction, or name a larger corpus.dev_path, as it "
                "is the held-out part that is so small."
            )
        loss, right = choose_neighbours(sources, candidates, self.window)
        return Loss(loss, dict(zip(self.part_names, (loss.detach(), right), strict=True)))

    def step_flops(self, encoder: Encoder) -> float:
        """Of sentences of the mean length that ``study`` found."""
        length = self.mean_length + len(encoder.format.prefix) + len(encoder.format.suffix)
        flops = encoder.forward_flops(round(self.batch_size * length), length)
        return 3 * (flops + self.batch_size**2 * encoder.dimension)  # which is 2 D

    def chances(self) -> dict[str, float]:
        size, window = self.batch_size, self.window
        near = 2 * window - window * (window + 1) / size  # neighbours in the mean: at both ends there are fewer
        return dict(zip(self.part_names, (math.log(size - 1), near / (size - 1)), strict=True))

    def facts(self) -> dict[str, Any]:
        return {"window": self.window, "negatives per anchor": self.batch_size - self._least + 1}
