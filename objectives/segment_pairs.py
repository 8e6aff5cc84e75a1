"""What NSP and SOP share: a pair of segments in one input, a binary head, and masked language modelling beside it.

    L = -log softmax(W pooled(A, B) + b)[whether B follows A] + mlm_weight * L_MLM

Devlin et al. (2019), section 3.1; Lan et al. (2020), section 3.1. In families of transformers that have BERT's
pooler, ``pooled`` is tanh(W' h_1 + b') of the first token's state: the pooler of the weights if they have it, else
a new one. It belongs to the encoder and is exported with it, so that it can be evaluated (pooling=pooler). Of
other transformers ``pooled`` is that state itself, and of encoders without a [CLS] the sentence vector of A, a
separator and B in one sequence.

In MLM both segments are masked and no special token ever is; it is divided by the number of selected tokens of the
global batch (the published programs: a fixed share of the positions, 20 at most).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import IGNORE, Batch, Tokens
from data.errors import UserError
from data.randomness import FIXED, generator
from data.ranges import AtLeast8, Proportion, Share, Size, Weight
from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore
from data.token_format import TokenFormat
from data.views.masking import mask_tokens
from data.views.segments import Pair, Place, RunningText
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Material, Needs, Objective
from objectives.functional import at_least_float32
from objectives.gather import global_mean, sum_over_processes
from objectives.masked_lm import masked_lm_sum

PROBED = 500  # pairs drawn to know how long they are


class Example(NamedTuple):
    """Token ids, segment ids and (with MLM) labels of a pair in one row, all of shape (T,), and its class."""

    ids: np.ndarray
    type_ids: np.ndarray
    labels: np.ndarray | None
    follows: bool


class SegmentPairs(Objective):
    """Base of NSP and SOP.

    Args:
        batch_size: pairs of a micro-batch over all processes.
        max_length: tokens of a pair, special ones included; an encoder of fewer positions has its own limit.
        short: probability of a pair that is to be shorter, of any length.
        mlm_weight: of MLM beside the classification; 0: none.
        mlm_probability: of a token to be selected.

    Raises:
        ValueError: if an argument is out of range.
    """

    name: ClassVar[str]  # of its loss

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        max_length: AtLeast8 = 128,
        short: Share = 0.1,
        mlm_weight: Weight = 1.0,
        mlm_probability: Proportion = 0.15,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.max_length = max_length
        self.short = short
        self.mlm_weight = mlm_weight
        self.mlm_probability = mlm_probability
        self.mean_length = float(max_length)  # of a pair's row
        self.head: nn.Linear | None = None

    @abstractmethod
    def places(self, store: TokenStore, part: Part, tokens: int) -> Selection:
        """The sentences of ``part`` at which pairs of up to ``tokens`` can be made."""

    @abstractmethod
    def pair(self, place: Place, room: int, rng: np.random.Generator) -> Pair:
        """A pair of at most ``room`` content tokens."""

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.name, f"{self.name}_accuracy", *(["mlm"] if self.mlm_weight else [])

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence", mask_token=self.mlm_weight > 0)

    def materials(self, corpus: Corpus) -> Mapping[str, Material]:
        tokens = max(2, min(self.max_length, corpus.tokenizer.model_max_length))  # `require` refuses less
        train, dev = (self.places(corpus.store, part, tokens) for part in ("train", "dev"))
        text = RunningText(corpus.store, corpus.store.documents, train.indices, dev.indices)
        rng = generator(FIXED)
        probed = rng.choice(train.indices, min(PROBED, len(train.indices)), replace=False)
        pairs = [self.pair(text[int(i)], tokens, rng) for i in probed]
        self.mean_length = float(np.mean([len(pair.first) + len(pair.second) for pair in pairs]))
        return {"": Material(text, train, dev)}

    def require(self, encoder: Encoder) -> None:
        """Refuses an encoder whose positions cannot hold a pair.

        Raises:
            UserError: saying so.
        """
        super().require(encoder)
        if self._room(encoder.format) < 2:
            raise UserError(
                f"An encoder of {encoder.format.max_length} positions cannot hold two segments: raise "
                "encoder.max_length."
            )

    def build(self, encoder: Encoder) -> None:
        """Makes the head, and the encoder's pooler where it lacks one."""
        encoder.add_pooler()
        self.head = nn.Linear(encoder.pooled_dimension, 2)

    def _room(self, format: TokenFormat) -> int:
        """Content tokens of a pair."""
        return min(self.max_length - format.max_length, 0) + format.max_pair

    # What is drawn

    def draw(self, unit: Place, format: TokenFormat, rng: np.random.Generator) -> Example:  # type: ignore[override]
        first, second, follows = self.pair(unit, self._room(format), rng)
        if not self.mlm_weight:
            return Example(*format.wrap_pair(first, second), None, follows)
        content = np.concatenate([first, second])
        hidden, labels = mask_tokens(content, format, self.mlm_probability, rng)
        ids, type_ids = format.wrap_pair(*np.split(hidden, [len(first)]))
        before, between, after = (
            np.full(len(marks), IGNORE) for marks in (format.prefix, format.middle, format.suffix)
        )
        one, other = np.split(labels, [len(first)])
        return Example(ids, type_ids, np.concatenate([before, one, between, other, after]), follows)

    def collate(self, examples: list[Example], format: TokenFormat) -> Batch:
        pairs = Tokens.pad(
            [example.ids for example in examples],
            format.pad_id,
            labels=[example.labels for example in examples if example.labels is not None] or None,
            type_ids=[example.type_ids for example in examples],
        )
        follows = torch.tensor([example.follows for example in examples], dtype=torch.int64)
        return Batch({"pair": pairs}, {"follows": follows}, size=len(examples))

    # Loss

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert self.head is not None, "build comes first"
        pairs, classes = batch.tokens["pair"], batch.numbers["follows"]
        encoding = encoder(pairs)
        logits = at_least_float32(self.head(encoder.pooled(encoding)))  # (B, 2)
        total, mean, count = global_mean(F.cross_entropy(logits, classes, reduction="sum"), len(classes))
        right = sum_over_processes((logits.argmax(dim=1) == classes).to(logits.dtype).sum()) / count
        parts: dict[str, Tensor] = {self.name: mean, f"{self.name}_accuracy": right}
        if pairs.labels is None:
            return Loss(total, parts)
        mlm_sum = masked_lm_sum(encoder, encoding.states, pairs.labels)
        mlm, parts["mlm"], selected = global_mean(mlm_sum, int((pairs.labels != IGNORE).sum()))
        return Loss(total + self.mlm_weight * mlm, parts, {"mlm": selected})

    def chances(self) -> dict[str, float]:
        return {self.name: math.log(2), f"{self.name}_accuracy": 0.5}  # one pair in two follows

    # Cost

    def step_flops(self, encoder: Encoder) -> float:
        """Of pairs of the mean length that ``materials`` found."""
        tokens = self.batch_size * self.mean_length
        flops = encoder.forward_flops(round(tokens), self.mean_length)
        if self.mlm_weight:
            flops += encoder.head_flops(round(tokens * self.mlm_probability))
        return 3 * flops  # forward, and twice as much backward
