"""Natural language inference: the class of a premise u and a hypothesis v.

    p = softmax(W_2 relu(W_1 dropout([u ; v ; |u - v| ; u * v]) + b_1) + b_2)

Subramanian et al. 2018, sections 4 and 7, after Conneau et al. 2017. Sentences are not cut, but to what the
encoder can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Batch, Tokens
from data.pairs import PairSource, PairUnit, prepare_pairs
from data.sources.inference import Inference
from data.sources.samples import Samples
from data.token_format import TokenFormat
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Material
from objectives.functional import at_least_float32
from objectives.gather import global_mean, sum_over_processes
from objectives.gensen.base import GenSenTask, Sizes, blamed, decoded, surprisals


class Example(NamedTuple):
    """Token ids of shapes (T,) and (U,), and the number of the class."""

    premise: np.ndarray
    hypothesis: np.ndarray
    label: int


class NLI(GenSenTask):
    """A classifier of pairs.

    Args:
        data: arguments of ``data.sources.inference.Inference``; None: generated pairs.
        synthetic_pairs: how many of these.
        sizes: see ``Sizes``.

    Raises:
        ValueError, UserError: as that source does.
    """

    source: PairSource

    def __init__(self, data: Mapping[str, Any] | None, synthetic_pairs: int, sizes: Sizes) -> None:
        with blamed("nli"):
            source = Samples(kind="nli", pairs=synthetic_pairs) if data is None else Inference(**data)
            super().__init__("nli", sizes, source)
        self.mean_length = 0.0  # tokens that are read of either sentence

    @property
    def part_names(self) -> tuple[str, ...]:
        return "nli", "nli_accuracy"

    def prepare(self, corpus: Corpus) -> Material:
        with blamed(self.name):
            store = prepare_pairs(
                self.source,
                corpus.tokenizer,
                None,
                cache=corpus.cache / "stores",
                progress=partial(corpus.progress, self.name),
            )
            train, dev = store.select("train"), store.select("dev")
        self.mean_length = float(store.source_lengths[train.indices].mean())
        self.surprisals["nli"] = surprisals(lambda i: store[i].target, train.indices, len(store.classes))
        self.material = Material(store, train, dev, store.source_lengths.max(axis=1), self.setting)
        return self.material

    def build(self, encoder: Encoder) -> None:
        self.classifier: nn.Module = nn.Sequential(
            nn.Dropout(self.sizes.dropout),
            nn.Linear(4 * encoder.dimension, self.sizes.classifier_width),
            nn.ReLU(),
            nn.Linear(self.sizes.classifier_width, len(self.source.classes)),
        )

    def draw(self, unit: PairUnit, format: TokenFormat, rng: np.random.Generator) -> Example:
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
        """Of the classes before the softmax, of shape (B, 3), at least float32."""
        vectors = encoder.vectors(Tokens.cat([premises, hypotheses], encoder.format.pad_id))
        return at_least_float32(self.classifier(self.joined(*vectors.split(len(premises)))))

    def joined(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """What the classifier reads of the vectors of B pairs, both of shape (B, D)."""
        return features(premises, hypotheses)

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        logits = self.scores(encoder, batch.tokens["premise"], batch.tokens["hypothesis"])
        classes = batch.numbers["class"]
        total, mean, count = global_mean(F.cross_entropy(logits, classes, reduction="sum"), len(classes))
        right = sum_over_processes((logits.argmax(dim=1) == classes).to(logits.dtype).sum()) / count
        parts = {"nli": mean, "nli_accuracy": right}
        if not self.training and self.surprisals:
            parts |= self.unigram("nli", classes)[0]
        return Loss(total, parts)

    def step_flops(self, encoder: Encoder) -> float:
        rows, length = (
            2 * self.batch_size,
            self.mean_length + len(encoder.format.prefix) + len(encoder.format.suffix),
        )
        weights = sum(weight.numel() for weight in self.classifier.parameters() if weight.ndim == 2)
        flops = encoder.forward_flops(round(rows * length), length) + 2.0 * self.batch_size * weights
        return 3 * flops  # forward, and twice as much backward

    def show(self, encoder: Encoder, units: Sequence[Any]) -> list[dict[str, str]]:
        examples = [self.draw(unit, encoder.format, np.random.default_rng()) for unit in units]
        device = next(encoder.parameters()).device
        batch = self.collate(examples, encoder.format).to(device)
        found = self.scores(encoder, batch.tokens["premise"], batch.tokens["hypothesis"]).argmax(dim=1)
        shown = []
        for unit, example, number in zip(units, examples, found.tolist(), strict=True):
            premise, hypothesis = (decoded(encoder.tokenizer, source) for source in unit.sources)
            classes = {"class": self.source.classes[example.label], "predicted": self.source.classes[number]}
            shown.append({"premise": premise, "hypothesis": hypothesis, **classes})
        return shown


def features(u: Tensor, v: Tensor) -> Tensor:
    """[u; v; |u - v|; u * v], of shape (B, 4D), for ``u`` and ``v`` of shape (B, D)."""
    return torch.cat([u, v, (u - v).abs(), u * v], dim=1)
