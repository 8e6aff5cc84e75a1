r"""QuickThoughts: finding the neighbours of a sentence within a passage (Logeswaran and Lee 2018).

    l(i) = - 1 / |C_i|  sum_{j in C_i}  log  exp(f(s_i) . g(s_j)) / sum_{k != i} exp(f(s_i) . g(s_k))

s_1 .. s_B, a batch, are consecutive sentences of the corpus, and C_i are the sentences at most ``window`` places
from i within it. "An efficient framework for learning sentence representations", section 3: two encoders f and g,
whose vectors are concatenated after training. As in the published program:

- batches cross document borders: the last sentence of a document and the first of the next count as neighbours;
- the target probability is shared among the neighbours of a sentence, which has fewer at the ends of a batch.

The published program sets the score of a sentence with itself to 0, which keeps it in the sum; here it is left
out, as in the paper, where candidates are other sentences. Sentences excluded from the corpus (``sentences.*``)
are skipped: those before and after such a sentence are neighbours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.batch import Batch, TokenExample
from data.errors import UserError
from data.ranges import Size
from data.token_format import TokenFormat
from encoders.base import Encoder
from encoders.concatenated import Concatenated
from encoders.kernels import without_autocast
from objectives.base import Loss, Objective, Requirements
from objectives.functional import at_least_float32
from objectives.gather import gather_rows

READERS = ("f", "g")  # the encoders of sources and of candidates

CITATION = """@inproceedings{logeswaran-lee-2018-quick-thoughts,
  title = {An efficient framework for learning sentence representations},
  author = {Logeswaran, Lajanugen and Lee, Honglak},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


def choose_neighbours(sources: Tensor, candidates: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Computes the loss above, and how often the best candidate is a neighbour.

    Args:
        sources, candidates: vectors f and g of B consecutive sentences, of shape (B, D).
        window: number of sentences on either side that are neighbours; less than B.

    Returns:
        The mean of l over the B sentences, a scalar in float32 or float64, and the accuracy, detached.
    """
    place = torch.arange(len(sources), device=sources.device)
    apart = (place[:, None] - place).abs()  # (B, B)
    near = (apart > 0) & (apart <= window)
    with without_autocast(sources.device):
        scores = at_least_float32(sources) @ at_least_float32(candidates).T
        scores = scores.masked_fill(apart == 0, -torch.inf).log_softmax(dim=1)
        loss = -(scores.masked_fill(~near, 0.0).sum(dim=1) / near.sum(dim=1)).mean()
    right = near.gather(1, scores.argmax(dim=1, keepdim=True))
    return loss, right.to(loss.dtype).mean()


class QuickThoughts(Objective):
    """QuickThoughts: two encoders side by side, compared by dot products; it has no weights of its own.

    Args:
        batch_size: consecutive sentences of a micro-batch over all processes.
        window: number of sentences on either side that are neighbours.

    Raises:
        UserError: if a batch would have no negatives.
    """

    citation = CITATION
    formula = (
        r"l(i) = -\frac{1}{|C_i|} \sum_{j \in C_i} \log"
        r" \dfrac{\exp(f(s_i) \cdot g(s_j))}{\sum_{k \neq i} \exp(f(s_i) \cdot g(s_k))}"
    )
    part_names = ("neighbour", "neighbour_accuracy")
    requirements = Requirements(unit="sentence", encoders=2)
    contiguous = True
    version = 2  # version 1 had copies of sentences as neighbours, of corpora with a weight

    def __init__(self, *, batch_size: Size = 400, window: Size = 1) -> None:
        super().__init__()
        self.window = window
        self.batch_size = batch_size
        self.least = 2 * window + 2  # sentences of a batch in which every sentence has a negative
        if batch_size < self.least:
            raise UserError(f"at least {self.least} with window={window}", key="objective.batch_size")

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Returns the sentence, which both encoders read; nothing is random."""
        rows = [format.wrap(unit)]
        return TokenExample({reader: rows for reader in READERS})

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert isinstance(encoder, Concatenated), "the experiment builds requirements.encoders of them"
        sources, candidates = (
            gather_rows(at_least_float32(member.vectors(batch.tokens[name])))
            for name, member in zip(READERS, encoder.members, strict=True)
        )
        loss, right = choose_neighbours(sources, candidates, self.window)
        return Loss(loss, self.name_parts(loss.detach(), right))

    def chance_levels(self, size: int) -> dict[str, float]:
        window = self.window
        near = 2 * window - window * (window + 1) / size  # neighbours on average: there are fewer at both ends
        return self.name_parts(math.log(size - 1), near / (size - 1))

    def facts(self) -> dict[str, Any]:
        return {"negatives per anchor": self.batch_size - self.least + 1}
