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
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from data.batch import IGNORE, Batch, TokenExample
from data.ranges import AtLeast8, Proportion, Share, Size, Weight
from data.sources.base import Part
from data.store import Selection, TokenTable
from data.token_format import TokenFormat
from data.views.masking import mask_tokens
from data.views.segments import Place, RunningText, SegmentPair
from encoders.base import Encoder
from objectives.base import PARTS, Corpus, Loss, Objective, Requirements, TaskData
from objectives.classifiers import classification_loss
from objectives.gather import global_mean
from objectives.masked_lm import masked_lm_sum


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
    word_order = False  # whether the classes differ only in it
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

    @abstractmethod
    def places(self, store: TokenTable, part: Part, tokens: int) -> Selection:
        """Selects the sentences of ``part`` from which pairs of up to ``tokens`` content tokens can start."""

    @abstractmethod
    def pair(self, place: Place, room: int, rng: np.random.Generator) -> SegmentPair:
        """Samples a pair of at most ``room`` content tokens at ``place``."""

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.name, f"{self.name}_accuracy", *(["mlm"] if self.mlm_weight else [])

    @property
    def requirements(self) -> Requirements:
        return Requirements(unit="sentence", mask_token=self.mlm_weight > 0, word_order=self.word_order)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        tokens = min(self.max_length, corpus.tokenizer.model_max_length)
        train, dev = (self.places(corpus.store, part, tokens) for part in PARTS)
        text = RunningText(corpus.store, corpus.store.documents, train.indices, dev.indices)
        return {"": TaskData(text, train, dev)}

    def build(self, encoder: Encoder) -> None:
        """Adds the classifier, and the encoder's pooler if it lacks one."""
        encoder.add_pooler()
        self.head = nn.Linear(encoder.state_dimension, 2)

    # Examples

    def sample(self, unit: Place, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        room = min(self.max_length - format.max_length, 0) + format.max_pair  # most content tokens of a pair
        first, second, follows = self.pair(unit, room, rng)
        labels = {}
        if self.mlm_weight:
            content = np.concatenate([first, second])
            hidden, selected = mask_tokens(content, format, self.mlm_probability, rng)
            special = [len(each) for each in (format.prefix, format.middle, format.suffix)]
            places = np.repeat([0, len(first), len(content)], special)
            labels = {"pair": [np.insert(selected, places, IGNORE)]}
            first, second = np.split(hidden, [len(first)])
        ids, type_ids = format.wrap_pair(first, second)
        return TokenExample({"pair": [ids]}, {"follows": int(follows)}, labels, {"pair": [type_ids]})

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

    def chance_levels(self, size: int) -> dict[str, float]:
        return {self.name: math.log(2), f"{self.name}_accuracy": 0.5}  # one pair in two follows
