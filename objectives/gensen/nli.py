"""Natural language inference: classifies pairs of a premise and a hypothesis, with vectors u and v.

    p = softmax(W_2 relu(W_1 dropout([u ; v ; |u - v| ; u * v]) + b_1) + b_2)

Subramanian et al. (2018), sections 4 and 7, after Conneau et al. (2017). Sentences are cut only to the encoder's
positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch, Tokens
from data.pairs import PairSource, PairUnit
from data.token_format import TokenFormat
from encoders.base import Encoder
from objectives.base import Corpus, Loss, TaskData
from objectives.classifiers import classification_loss, classifier_flops
from objectives.functional import at_least_float32, forward_flops
from objectives.gensen.base import GenSenTask, decoded, surprisals, task_keys


class Example(NamedTuple):
    """Token ids of premise and hypothesis, of shapes (T,) and (U,), and the number of the class."""

    premise: np.ndarray
    hypothesis: np.ndarray
    label: int


class NLI(GenSenTask):
    """Classification of sentence pairs."""

    part_names = ("nli", "nli_accuracy")
    source: PairSource
    mean_length = 0.0  # content tokens of a sentence

    def prepare(self, corpus: Corpus) -> TaskData:
        with task_keys(self.name):
            store, train, dev = self.pair_store(corpus)
        self.mean_length = float(store.source_lengths[train.indices].mean())
        self.surprisals["nli"] = surprisals(store, train.indices, len(store.classes), of=lambda pair: pair.target)
        return TaskData(store, train, dev, store.source_lengths.max(axis=1), self.setting)

    def build(self, encoder: Encoder) -> None:
        self.classifier: nn.Module = nn.Sequential(
            nn.Dropout(self.sizes.dropout),
            nn.Linear(4 * encoder.dimension, self.sizes.classifier_width),
            nn.ReLU(),
            nn.Linear(self.sizes.classifier_width, len(self.source.classes)),
        )

    def sample(self, unit: PairUnit, format: TokenFormat, rng: np.random.Generator) -> Example:
        premise, hypothesis = (format.wrap(source) for source in unit.sources)
        return Example(premise, hypothesis, int(unit.target[0]))

    def collate(self, examples: list[Example], format: TokenFormat) -> Batch:
        return Batch(
            {
                "premise": Tokens.pad([example.premise for example in examples], format.pad_id),
                "hypothesis": Tokens.pad([example.hypothesis for example in examples], format.pad_id),
            },
            {"class": torch.tensor([example.label for example in examples], dtype=torch.int64)},
            size=len(examples),
            task=self.name,
        )

    def scores(self, encoder: Encoder, premises: Tokens, hypotheses: Tokens) -> Tensor:
        """Computes the scores of the classes before the softmax, of shape (B, 3), in float32 or float64."""
        vectors = encoder.vectors(Tokens.cat([premises, hypotheses], encoder.format.pad_id))
        return at_least_float32(self.classifier(self.features(*vectors.split(len(premises)))))

    def features(self, u: Tensor, v: Tensor) -> Tensor:
        """Joins the classifier's input, [u; v; |u - v|; u * v] of shape (B, 4D), from u and v of shape (B, D)."""
        return torch.cat([u, v, (u - v).abs(), u * v], dim=1)

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        scores = self.scores(encoder, batch.tokens["premise"], batch.tokens["hypothesis"])
        classes = batch.numbers["class"]
        total, mean, accuracy = classification_loss(scores, classes)
        parts = {"nli": mean, "nli_accuracy": accuracy}
        if not self.training and self.surprisals:
            parts |= self.unigram_baseline("nli", classes)[0]
        return Loss(total, parts)

    def step_flops(self, encoder: Encoder) -> float:
        flops = forward_flops(encoder, 2 * self.batch_size, self.mean_length)
        flops += classifier_flops(self.classifier, self.batch_size)
        return 3 * flops  # a backward pass costs two forward passes

    def predict(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        examples = [self.sample(unit, encoder.format, np.random.default_rng()) for unit in units]
        device = next(encoder.parameters()).device
        batch = self.collate(examples, encoder.format).to(device)
        found = self.scores(encoder, batch.tokens["premise"], batch.tokens["hypothesis"]).argmax(dim=1)
        shown = []
        for unit, example, number in zip(units, examples, found.tolist(), strict=True):
            premise, hypothesis = (decoded(encoder.tokenizer, source) for source in unit.sources)
            classes = {"class": self.source.classes[example.label], "predicted": self.source.classes[number]}
            shown.append({"premise": premise, "hypothesis": hypothesis, **classes})
        return shown
