r"""Pairs with labels: an anchor finds its positive in the batch (supervised SimCSE, multiple-negatives ranking).

    l(i) = -log  exp(cos(a_i, p_i) / t) / (exp(cos(a_i, p_i) / t) + sum_{c in C_i} exp(cos(a_i, c) / t))

C_i are the other positives and, if there are any, all hard negatives n_1 .. n_N of the batch, without duplicates:
a text equal to a_i or p_i, or a positive of an anchor equal to a_i, is no negative of a_i. Henderson et al. 2017,
"Efficient Natural Language Response Suggestion for Smart Reply", section 4.4; Gao, Yao and Chen (2021), section 4,
equation 5. With ``both_directions`` each positive also has to find its anchor among all anchors, and l is the mean
of both, as in sentence-transformers.

In inference data anchors are premises, positives are entailed hypotheses, and the hard negative of a pair is a
contradicted hypothesis of the same premise, drawn anew each time (Gao et al. fix one). A premise without one is
left out, as by Gao et al. and sentence-transformers; with ``hard_negatives=false`` all entailed pairs are used,
without hard negatives. There is no head (Gao et al. have a layer with tanh, in evaluation, too).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Batch, TokenExample
from data.errors import UserError
from data.ranges import AtLeast2, AtLeast8, Positive, Size
from data.sources.base import Source
from data.sources.pairs import LABELS, Inference, Parallel
from data.sources.samples import MOST, Generated, Samples
from data.store import TokenTable
from data.token_format import TokenFormat
from encoders.base import Encoder
from encoders.kernels import without_autocast
from objectives import simcse
from objectives.base import Corpus, Loss, Objective, Requirements, TaskData, open_pairs, task_keys
from objectives.caching import embed_in_groups
from objectives.functional import at_least_float32
from objectives.gather import gather_rows

ROLES = ("anchor", "positive", "negative")


class Choices:
    """Texts to choose from for each role, by the number of the pair.

    Args:
        pairs: tokenised pairs.
        negative: mask of the pairs whose second texts are the hard negatives of pairs with the same first text.
    """

    def __init__(self, pairs: TokenTable, negative: np.ndarray) -> None:
        self.pairs, self.lengths, self.fingerprint = pairs, pairs.lengths, pairs.fingerprint
        order = pairs.texts.argsort(kind="stable")
        self.negatives = order[negative[order]]  # in ascending order of the first texts' hashes
        self.texts = pairs.texts[self.negatives]

    def __getitem__(self, i: int) -> list[list[np.ndarray]]:
        pair, text = self.pairs[i], self.pairs.texts[i]
        same = slice(*(self.texts.searchsorted(text, side) for side in ("left", "right")))
        negatives = [self.pairs[number].second for number in self.negatives[same].tolist()]
        return [texts for texts in ([pair.first], [pair.second], negatives) if texts]


def rank_pairs(
    vectors: Tensor, texts: Tensor, *, temperature: float, both_directions: bool = False
) -> tuple[Tensor, Tensor]:
    """Computes the loss above, and how often an anchor's own positive has the largest cosine.

    Args:
        vectors: of anchor, positive and any hard negatives of each pair, of shape (N, 2 or more, D).
        texts: numbers of their texts, equal for equal texts, of shape (N, 2 or more).
        temperature: t, which divides the cosines.
        both_directions: whether positives also have to find their anchors.

    Returns:
        The mean over N, a scalar in float32 or float64, and the accuracy, a detached scalar. Ties count as errors.
    """
    count, (anchor, positive) = len(texts), texts.T[:2, :, None]  # (N, 1) each
    candidates = texts.T[1:].flatten()  # (M,), the positives first
    excluded = (candidates == anchor) | (candidates == positive)  # (N, M)
    excluded[:, :count] |= anchor == anchor.T
    with without_autocast(vectors.device):
        anchors, *others = F.normalize(at_least_float32(vectors), dim=2).unbind(1)
        scores = anchors @ torch.cat(others).T / temperature  # (N, M)
        scores = scores.masked_fill(excluded.fill_diagonal_(False), -torch.inf)
        pair = torch.arange(count, device=scores.device)
        loss = F.cross_entropy(scores, pair)
        if both_directions:
            loss = (loss + F.cross_entropy(scores[:, :count].T, pair)) / 2
    right = (scores >= scores.diagonal()[:, None]).sum(dim=1) == 1
    return loss, right.to(loss.dtype).mean()


class Pairs(Objective):
    """Contrastive learning from pairs of one meaning: an anchor finds its positive among those of the batch.

    Args:
        batch_size: N, pairs of a micro-batch over all processes.
        nli: inference data, as arguments of ``data.sources.pairs.Inference``.
        pairs: instead of it, pairs without hard negatives (duplicate questions, translations), as arguments of
            ``data.sources.pairs.Parallel``. Without either, pairs are generated.
        hard_negatives: whether pairs of inference data have contradicted hypotheses as hard negatives; those
            without one are then left out.
        both_directions: whether positives also have to find their anchors.
        temperature: t, which divides the cosine similarities.
        max_length: most tokens of a text that are read, special tokens included.
        cache_chunk: largest number of tokens, padding included, of a chunk of texts (``objectives.caching``); it
            bounds memory, and the gradient stays the same. None: no gradient caching.
        synthetic_pairs: number of generated pairs, of three classes.

    Raises:
        UserError: if both ``nli`` and ``pairs`` are given, or the data cannot be found.
    """

    citation = simcse.CITATION
    formula = (
        r"l(i) = -\log \dfrac{\exp(\cos(a_i, p_i) / t)}"
        r"{\sum_{j=1}^{N} [\exp(\cos(a_i, p_j) / t) + \exp(\cos(a_i, n_j) / t)]}"
    )
    part_names = ("contrastive", "contrastive_accuracy")
    requirements = Requirements(unit="sentence")
    reads_targets = True

    def __init__(
        self,
        *,
        batch_size: AtLeast2 = 64,
        nli: Annotated[Mapping[str, Any], Inference] | None = None,
        pairs: Annotated[Mapping[str, Any], Parallel] | None = None,
        hard_negatives: bool = True,
        both_directions: bool = False,
        temperature: Positive = 0.05,
        max_length: AtLeast8 = 32,
        cache_chunk: Size | None = None,
        synthetic_pairs: Generated = MOST,
    ) -> None:
        super().__init__()
        if nli and pairs:
            raise UserError("set this or nli, and only one of them", key="objective.pairs")
        self.task = "nli" if nli else "pairs"
        kind, data = (Inference, nli) if nli else (Parallel, pairs)
        with task_keys(self.task):
            self.source: Source = kind(**data) if data else Samples(kind="pairs", pairs=synthetic_pairs)
        self.own_sources = {self.task: self.source}
        self.batch_size = batch_size
        self.hard_negatives = hard_negatives and bool(self.source.classes)
        self.both_directions = both_directions
        self.temperature = temperature
        self.max_length = max_length
        self.cache_chunk = cache_chunk

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the pairs; of inference data those of the class entailment.

        Raises:
            UserError: if there are none, or none has a hard negative.
        """
        with task_keys(self.task):
            pairs, train, dev, setting = open_pairs(self.source, corpus, self.task)
            usable, contradicted = pairs.labels <= LABELS["entailment"], pairs.labels == LABELS["contradiction"]
            if self.hard_negatives:
                usable &= np.isin(pairs.texts, pairs.texts[contradicted])
            needs = "an entailed hypothesis, and with hard_negatives a contradicted one of the same premise"
            train, dev = (part.narrow(usable, "without positive or negative", needs) for part in (train, dev))
        units = Choices(pairs, contradicted & self.hard_negatives)
        return {self.task: TaskData(units, train, dev, setting=setting)}

    def sample(self, unit: list[list[np.ndarray]], format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Returns anchor, positive and, if there are any, a random hard negative, with numbers of their texts."""
        most = self.max_length - len(format.prefix) - len(format.suffix)
        rows = [format.wrap(texts[int(rng.integers(len(texts)))][:most]) for texts in unit]
        # Checksums are equal for equal texts in every process, and differ for others but once in 2**32.
        texts = [crc32(row.tobytes()) for row in rows]
        return TokenExample({role: [row] for role, row in zip(ROLES, rows, strict=False)}, {"texts": texts})

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        tokens = batch.all_rows(encoder.format.pad_id)
        vectors, *_ = embed_in_groups(lambda part: (encoder.vectors(part),), tokens, chunk=self.cache_chunk)
        vectors = at_least_float32(vectors).unflatten(0, (-1, batch.size)).transpose(0, 1)  # (B, 2 or 3, D)
        loss, right = rank_pairs(
            gather_rows(vectors),
            gather_rows(batch.numbers["texts"]),
            temperature=self.temperature,
            both_directions=self.both_directions,
        )
        return Loss(loss, self.name_parts(loss.detach(), right))

    def facts(self) -> dict[str, Any]:
        return {"negatives per anchor": self.batch_size * (1 + self.hard_negatives) - 1} | super().facts()
