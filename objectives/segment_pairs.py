"""Base of NSP and SOP: classification of a pair of segments, with masked language modelling.

    L = -log softmax(W f(A, B) + b)[does B follow A?] + mlm_weight * L_MLM        f: ``sequence_features``

Devlin et al. (2019), section 3.1; Lan et al. (2020), section 3.1. For transformers whose architecture has BERT's
pooler, f is tanh(W' h_1 + b') of the first token's state, with the pooler of the checkpoint or else a new one. The
pooler belongs to the encoder and is exported with it, so that it can be evaluated (pooling=pooler). For other
transformers f is the first state itself, and for encoders without [CLS] the sentence vector of the sequence A,
separator, B.

MLM masks tokens of both segments, but never special tokens. Its loss is divided by the number of masked tokens in
the global batch (the published programs mask a fixed share of the positions, at most 20).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import IGNORE, Batch, Tokens
from data.errors import UserError
from data.randomness import FIXED, generator
from data.ranges import AtLeast8, Proportion, Share, Size, Weight
from data.selection import Selection
from data.sources.base import Part
from data.store import TokenStore
from data.token_format import TokenFormat
from data.views.masking import mask_tokens
from data.views.segments import Place, RunningText, SegmentPair
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Objective, Requirements, TaskData
from objectives.classifiers import classification_loss
from objectives.gather import global_mean
from objectives.masked_lm import masked_lm_sum

MEASURED = 500  # training pairs from which the mean length is estimated


class Example(NamedTuple):
    """Token ids, segment ids and (with MLM) labels of a pair, all of shape (T,), and the class to predict."""

    ids: np.ndarray
    type_ids: np.ndarray
    labels: np.ndarray | None
    follows: bool


class SegmentPairs(Objective):
    """Base of NSP and SOP.

    Args:
        batch_size: pairs of a micro-batch over all processes.
        max_length: most tokens of a pair, special tokens included; less if the encoder has fewer positions.
        short: probability that a pair gets a shorter length, chosen at random.
        mlm_weight: weight of the MLM loss; 0: no MLM.
        mlm_probability: probability of a token to be selected for MLM.
    """

    formula = (
        r"L = -\log\, \mathrm{softmax}(W f(A, B) + b)_{[B\ \mathrm{follows}\ A]}"
        r" + w_{\mathrm{mlm}}\, L_{\mathrm{MLM}}"
    )
    name: ClassVar[str]  # of the loss part
    head: nn.Linear

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
        self.mean_length = float(max_length)  # content tokens of a pair

    @abstractmethod
    def places(self, store: TokenStore, part: Part, tokens: int) -> Selection:
        """Selects the sentences of ``part`` from which pairs of up to ``tokens`` content tokens can start."""

    @abstractmethod
    def pair(self, place: Place, room: int, rng: np.random.Generator) -> SegmentPair:
        """Samples a pair of at most ``room`` content tokens at ``place``."""

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.name, f"{self.name}_accuracy", *(["mlm"] if self.mlm_weight else [])

    @property
    def requirements(self) -> Requirements:
        return Requirements(unit="sentence", mask_token=self.mlm_weight > 0)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        tokens = max(2, min(self.max_length, corpus.tokenizer.model_max_length))  # `check_encoder` refuses less
        train, dev = (self.places(corpus.store, part, tokens) for part in ("train", "dev"))
        text = RunningText(corpus.store, corpus.store.documents, train.indices, dev.indices)
        rng = generator(FIXED)
        chosen = rng.choice(train.indices, min(MEASURED, len(train.indices)), replace=False)
        pairs = [self.pair(text[int(i)], tokens, rng) for i in chosen]
        self.mean_length = float(np.mean([len(pair.first) + len(pair.second) for pair in pairs]))
        return {"": TaskData(text, train, dev)}

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder whose positions cannot hold a pair.

        Raises:
            UserError: if so; UnfitError: see ``Objective``.
        """
        super().check_encoder(encoder)
        if self._room(encoder.format) < 2:
            raise UserError("too short for two segments", key=f"encoder.max_length={encoder.format.max_length}")

    def build(self, encoder: Encoder) -> None:
        """Adds the classifier, and the encoder's pooler if it lacks one."""
        encoder.add_pooler()
        self.head = nn.Linear(encoder.sequence_dimension, 2)

    def _room(self, format: TokenFormat) -> int:
        """Returns the most content tokens of a pair."""
        return min(self.max_length - format.max_length, 0) + format.max_pair

    # Examples

    def sample(self, unit: Place, format: TokenFormat, rng: np.random.Generator) -> Example:
        first, second, follows = self.pair(unit, self._room(format), rng)
        if not self.mlm_weight:
            return Example(*format.wrap_pair(first, second), None, follows)
        content = np.concatenate([first, second])
        hidden, labels = mask_tokens(content, format, self.mlm_probability, rng)
        ids, type_ids = format.wrap_pair(*np.split(hidden, [len(first)]))
        before, between, after = (
            np.full(len(special), IGNORE) for special in (format.prefix, format.middle, format.suffix)
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
        pairs, classes = batch.tokens["pair"], batch.numbers["follows"]
        encoding = encoder(pairs)
        total, mean, accuracy = classification_loss(self.head(encoder.sequence_features(encoding)), classes)
        parts: dict[str, Tensor] = {self.name: mean, f"{self.name}_accuracy": accuracy}
        if pairs.labels is None:
            return Loss(total, parts)
        mlm_sum = masked_lm_sum(encoder, encoding.states, pairs.labels)
        mlm, parts["mlm"], selected = global_mean(mlm_sum, int((pairs.labels != IGNORE).sum()))
        return Loss(total + self.mlm_weight * mlm, parts, {"mlm": selected})

    def chance_levels(self) -> dict[str, float]:
        return {self.name: math.log(2), f"{self.name}_accuracy": 0.5}  # one pair in two follows

    # Cost

    def step_flops(self, encoder: Encoder) -> float:
        tokens = self.batch_size * self.mean_length
        flops = encoder.forward_flops(round(tokens), self.mean_length)
        if self.mlm_weight:
            flops += encoder.head_flops(round(tokens * self.mlm_probability))
        return 3 * flops  # a backward pass costs two forward passes
