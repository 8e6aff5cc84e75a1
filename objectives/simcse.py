"""Unsupervised SimCSE: two views of a text, by default a sentence and itself, which differ in dropout.

    l(i) = -log  exp(cos(z_i, z'_i) / t) / sum_{j=1..N} exp(cos(z_i, z'_j) / t)        z = tanh(W E(S) + b)

z and z' are the vectors of the first and second view. Gao, Yao and Chen (2021), section 3, equation 4. The loss
has one direction: each first vector is compared with the N second ones, but not with other first ones as in
NT-Xent.

W is only used in training and dropped at export; the paper's E(S) is the state of [CLS] (table 6: "w/ MLP
(train)"). Held-out losses are computed with dropout (our choice: without it both passes are equal).

Pairs of views, all under dropout (González-Márquez et al. 2026 compare crops of a document with dropout):

    dropout      S | S
    deletion     two copies of S, each without some of its words (Gao et al., table 1)
    repetition   S | S with some tokens repeated: ESimCSE (Wu et al. 2022), section 3.1
    crops        two crops of S of equal length, each from a random start
    sentences    S | the next sentence of its document
    spans        two spans of ``max_length`` tokens of one document, placed as DeCLUTR's (``data.views.spans``)

Repetition is that of the published program (``dup_type=bpe``): the number of repeated tokens is uniform over 0 ..
min(10, floor(rate * T)) - 1, where T counts special tokens, too, which are never repeated. (The paper: 0 .. max(2,
floor(rate * T)).)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Batch, TokenExample, Tokens
from data.errors import UnfitError
from data.ranges import AtLeast2, AtLeast8, Positive, Proportion
from data.token_format import TokenFormat
from data.views import neighbours, perturbations, words
from data.views.perturbations import Perturbed
from data.views.spans import SpanSampler
from encoders.base import Encoder
from objectives.base import PARTS, Corpus, Loss, Objective, Requirements, TaskData, evaluating
from objectives.functional import at_least_float32, choose_first, in_batch_scores
from objectives.gather import gather_rows

ViewName = Literal["dropout", "deletion", "repetition", "crops", "sentences", "spans"]
PASSES = ("first", "second")
# Gao et al. 2021, table 1; Wu et al. 2022, section 4; ours.
RATES = {"deletion": 0.1, "repetition": 0.32, "crops": 0.5}
MOST_REPEATED = 10  # in the published program
NEXT = (1,)  # offset of the next sentence
PROBE_ROWS, PROBE_TOKENS = 8, 16  # of the batch that shows whether an encoder has dropout
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
    """Unsupervised SimCSE. With ``views=dropout`` the encoder must have dropout, as all else is equal.

    Args:
        batch_size: N, sentences of a micro-batch over all processes.
        temperature: t, which divides the cosine similarities.
        max_length: most tokens of a view that are read, special tokens included.
        views: what makes two views of a text.
        rate: probability of deleting a word, duplication rate, or share of a sentence outside a crop; None:
            ``RATES``. Other views ignore it.
    """

    citation = CITATION
    formula = (
        r"l(i) = -\log \dfrac{\exp(\cos(z_i, z'_i) / t)}{\sum_{j=1}^{N} \exp(\cos(z_i, z'_j) / t)}"
        r" \qquad z = \tanh(W\, E(S) + b)"
    )
    part_names = ("contrastive", "contrastive_accuracy")
    head: nn.Module
    begins: np.ndarray  # whether a token id begins a word, of shape (vocabulary,)

    def __init__(
        self,
        *,
        batch_size: AtLeast2 = 64,
        temperature: Positive = 0.05,
        max_length: AtLeast8 = 32,
        views: ViewName = "dropout",
        rate: Proportion | None = None,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.temperature = temperature
        self.max_length = max_length
        self.views: ViewName = views
        self.rate = rate or RATES.get(views, 0.0)

    @property
    def requirements(self) -> Requirements:
        return Requirements("document", 2 * self.max_length) if self.views == "spans" else Requirements("sentence")

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        if self.views != "sentences":
            return super().task_data(corpus)
        train, dev = (neighbours.select(corpus.store, part, NEXT) for part in PARTS)
        return {"": TaskData(neighbours.Neighbours(corpus.store, corpus.store, NEXT), train, dev)}

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder without dropout, if nothing else makes two views differ.

        Raises:
            UnfitError: if so.
        """
        super().check_encoder(encoder)
        if self.views == "dropout" and _is_deterministic(encoder):
            raise UnfitError(
                "without dropout both passes of a sentence are the same",
                key="encoder.dropout",
                hint="Recurrent encoders apply dropout between layers: encoder.dropout=0.1 encoder.layers=2.",
            )

    def build(self, encoder: Encoder) -> None:
        """Adds the head tanh(W e + b)."""
        # Torch initialises W with a standard deviation of 1 / sqrt(3 D): at D = 768 the published program's 0.02.
        self.head = nn.Sequential(nn.Linear(encoder.dimension, encoder.dimension), nn.Tanh())
        if self.views == "deletion":
            self.begins = words.word_start_mask(encoder.tokenizer)

    def sample(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        views = dict(zip(PASSES, self._draw(unit, format, rng), strict=True))
        rows = {name: [format.wrap(view.tokens)] for name, view in views.items()}
        within = {} if self.views == "sentences" else views  # of one text
        return TokenExample(rows, sources={name: [view.sources] for name, view in within.items()})

    def _draw(self, unit: Any, format: TokenFormat, rng: np.random.Generator) -> list[Perturbed]:
        """Draws two views without special tokens, of at most ``max_length`` with them before repetition."""
        special = len(format.prefix) + len(format.suffix)
        room = min(self.max_length - special, format.max_content)
        if self.views == "spans":
            sampler = SpanSampler(anchors_per_document=1, positives_per_anchor=1, min_length=room, max_length=room)
            anchors, [positives] = sampler.draw(len(unit), rng)
            return [perturbations.select(unit, np.arange(*span)) for span in (*anchors, *positives)]
        texts = [unit.sentence, *unit.neighbours] if self.views == "sentences" else [unit, unit]
        first, second = (perturbations.select(text, np.arange(len(text))[:room]) for text in texts)
        tokens = first.tokens
        if self.views == "crops":
            length = math.ceil((1 - self.rate) * len(tokens))
            return [perturbations.crop(tokens, length, rng) for _ in PASSES]
        if self.views == "deletion":
            return [words.delete_words(tokens, self.begins, self.rate, rng) for _ in PASSES]
        if self.views == "repetition":
            most = min(MOST_REPEATED, int(self.rate * (len(tokens) + special)))
            second = perturbations.repeat(tokens, int(rng.integers(max(1, most))), rng)
        return [first, second]

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        with _dropout(encoder):
            vectors = encoder.vectors(batch.all_rows(encoder.format.pad_id))  # (2B, D)
        first, second = (gather_rows(half) for half in at_least_float32(self.head(vectors)).chunk(2))
        loss, right = one_directional(first, second, temperature=self.temperature)
        return Loss(loss, self.name_parts(loss.detach(), right))

    def chance_levels(self, size: int) -> dict[str, float]:
        return self.name_parts(math.log(size), 1 / size)

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
    row = encoder.format.wrap(np.arange(PROBE_TOKENS) % encoder.format.vocab_size)
    tokens = Tokens.pad([row] * PROBE_ROWS, encoder.format.pad_id)
    with evaluating(encoder), _dropout(encoder):  # which seeds the masks in an evaluation only
        vectors = encoder(tokens).sentence
    return torch.allclose(vectors, vectors[:1], rtol=1e-4, atol=1e-6)
