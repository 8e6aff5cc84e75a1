"""DeCLUTR: span-contrastive learning with masked language modelling (Giorgi et al. 2021).

    L = contrastive_weight * L_contrastive + mlm_weight * L_MLM
    L_contrastive = mean_i  -log  exp(cos(e_i, e_{i'}) / tau) / sum_{j != i} exp(cos(e_i, e_j) / tau)

Sections 3.1 and 3.2 of the paper. Anchors and positives are spans of the same document (``data.views.spans``). The
e_j are 2AN embeddings: of A anchors of each of N documents, and of their mean positives. e_i and e_{i'} are an
anchor and its mean positive, in either order, and i runs over all 2AN; tau is the temperature. All other vectors
are negatives, including those of the same document (``objectives.functional``).

Where the paper leaves a choice open:

- anchors are masked for MLM, and the same pass gives their embeddings (as in the published program);
- positives are averaged after the projection head (our choice; the paper's formula has no head);
- the contrastive loss is a mean over the 2AN vectors (as in the published program; the paper prints a sum);
- the MLM loss is divided by the number of masked tokens in the global batch (our choice: exact over processes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from data.batch import IGNORE, Batch, TokenExample, Tokens
from data.errors import UserError
from data.ranges import Positive, Proportion, Size, SizeOrZero, Weight
from data.token_format import TokenFormat
from data.views.masking import mask_tokens
from data.views.spans import Placement, SpanSampler, Strategy
from encoders.base import Encoder
from objectives import masked_lm
from objectives.base import Loss, Objective, Requirements
from objectives.caching import embed_in_groups
from objectives.functional import Reduction, at_least_float32, nt_xent
from objectives.gather import gather_rows, global_mean
from objectives.masked_lm import masked_lm_sum
from objectives.memory_bank import MemoryBank
from objectives.projection import Projection, ProjectionHead

CITATION = """@inproceedings{giorgi-etal-2021-declutr,
  title = {{DeCLUTR}: Deep Contrastive Learning for Unsupervised Textual Representations},
  author = {Giorgi, John and Nitski, Osvald and Wang, Bo and Bader, Gary},
  booktitle = {Proceedings of ACL-IJCNLP},
  year = {2021},
  pages = {879--895}
}"""

# Parameters (alpha, beta) of a beta distribution.
Beta = Annotated[Sequence[Annotated[float, Field(gt=0, le=1e6)]], Field(min_length=2, max_length=2)]


class Declutr(Objective):
    """Contrastive learning of spans, with MLM.

    Args:
        batch_size: N, documents of a micro-batch over all processes.
        anchors_per_document, positives_per_anchor: A and P.
        min_length, max_length: of a span, in content tokens of the encoder's tokenizer. A span that exceeds the
            encoder's positions is cut at its end.
        anchor_beta, positive_beta: (alpha, beta) of the distributions of span lengths.
        gap: smallest distance in tokens between the starts of two anchors; None: 2 * max_length (the first version
            of the paper: max_length). At least max_length - min_length: else a span could pass the document's end.
        anchors: placement of anchors, "uniform" over all that keep the gap, or "grid" as in the published program.
        strategy: placement of positives: "all" (near the anchor or in it), "adjacent" (touching it on either side)
            or "subsuming" (inside the anchor, which subsumes them).
        min_tokens: fewest tokens of a usable document, if more than the spans need (the paper: 2048).
        temperature: temperature of NT-Xent.
        reduction: "mean" or "sum" of NT-Xent over the vectors.
        contrastive_weight, mlm_weight: weights of the two losses. Without a contrastive loss the positives are not
            encoded; without MLM the anchors are not masked.
        mlm_probability: probability of a token to be selected for MLM.
        projection: settings of a projection head (arguments of a ``Projection``); None: no head.
        memory_bank: M, number of embeddings of earlier steps that serve as further negatives; 0: none.
        cache_chunk: largest number of tokens, padding included, of a chunk of spans (gradient caching; L. Gao et
            al. 2021). Only one chunk's activations are in memory: each chunk is embedded without a graph, and
            again in the backward pass with the same random state. The gradient is exact. None: no caching.
        length_groups: number of sub-batches of spans of similar length in which the encoder runs, to avoid
            padding; not used if the encoder packs all spans into one sequence, as transformers do on a GPU.
        legacy_scale: whether the contrastive gradient lacks the factor of the number of processes, as in the
            published program.

    With gradient accumulation each micro-batch is a batch of its own: negatives and the number of masked tokens
    are counted within it.

    Raises:
        UserError: if two arguments contradict each other.
    """

    citation = CITATION
    formula = (
        r"L = w_{\mathrm{contrastive}}\, L_{\mathrm{contrastive}} + w_{\mathrm{mlm}}\, L_{\mathrm{MLM}}"
        "\n"
        r"L_{\mathrm{contrastive}} = \frac{1}{2AN} \sum_i -\log"
        r" \dfrac{\exp(\cos(e_i, e_{i'}) / \tau)}{\sum_{j \neq i} \exp(\cos(e_i, e_j) / \tau)}"
    )

    def __init__(
        self,
        *,
        batch_size: Size = 16,
        anchors_per_document: Size = 2,
        positives_per_anchor: Size = 2,
        min_length: Size = 32,
        max_length: Size = 512,
        anchor_beta: Beta = (4.0, 2.0),
        positive_beta: Beta = (2.0, 4.0),
        gap: Size | None = None,
        anchors: Placement = "uniform",
        strategy: Strategy = "all",
        min_tokens: SizeOrZero | None = None,
        temperature: Positive = 0.05,
        reduction: Reduction = "mean",
        contrastive_weight: Weight = 1.0,
        mlm_weight: Weight = 1.0,
        mlm_probability: Proportion = 0.15,
        projection: Annotated[Mapping[str, Any], Projection] | None = None,
        memory_bank: SizeOrZero = 0,
        cache_chunk: Size | None = None,
        length_groups: Size = 6,
        legacy_scale: bool = False,
    ) -> None:
        super().__init__()
        self.sampler = SpanSampler(
            anchors_per_document=anchors_per_document,
            positives_per_anchor=positives_per_anchor,
            min_length=min_length,
            max_length=max_length,
            anchor_beta=anchor_beta,
            positive_beta=positive_beta,
            gap=gap,
            placement=anchors,
            strategy=strategy,
        )
        self.batch_size = batch_size
        self.min_tokens = min_tokens
        self.temperature = temperature
        self.reduction: Reduction = reduction
        self.contrastive_weight = contrastive_weight
        self.mlm_weight = mlm_weight
        self.mlm_probability = mlm_probability
        self.projection = Projection(**projection) if projection is not None else None
        self.memory_bank = memory_bank
        self.cache_chunk = cache_chunk
        self.length_groups = length_groups
        self.legacy_scale = legacy_scale
        self.head: ProjectionHead | None = None
        self.bank: MemoryBank | None = None
        if not contrastive_weight:
            self.citation = masked_lm.CITATION
        spread = max_length - min_length
        refusals = {
            "min_length": (spread < 0, f"must be at most max_length={max_length}"),
            "cache_chunk": ((cache_chunk or max_length) < max_length, f"must be at least max_length={max_length}"),
            "gap": (self.sampler.least_gap < spread, f"must be at least max_length - min_length = {spread}"),
            "contrastive_weight": (contrastive_weight == mlm_weight == 0, "must not be 0 where mlm_weight is 0"),
            "batch_size": (
                contrastive_weight > 0 and batch_size * anchors_per_document < 2,
                "a single pair has no negatives",
            ),
        }
        for name, (refused, why) in refusals.items():
            if refused:
                raise UserError(why, key=f"objective.{name}")

    @property
    def part_names(self) -> tuple[str, ...]:
        weights = {"contrastive": self.contrastive_weight, "mlm": self.mlm_weight}
        return tuple(name for name, weight in weights.items() if weight)

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            unit="document",
            min_tokens=max(self.sampler.min_tokens, self.min_tokens or 0),
            mask_token=self.mlm_weight > 0,
        )

    def build(self, encoder: Encoder) -> None:
        """Adds the projection head and the memory bank."""
        if not self.contrastive_weight:
            return
        width = encoder.dimension
        if self.projection is not None:
            self.head = ProjectionHead(width, self.projection)
            width = self.projection.width
        if self.memory_bank:
            self.bank = MemoryBank(self.memory_bank, width)

    # Examples

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Returns A anchors, masked for MLM, and A * P positives, anchor by anchor (with a contrastive loss)."""
        anchors, positives = self.sampler.draw(len(unit), rng)
        spans = {"anchor": anchors}
        if self.contrastive_weight:
            spans["positive"] = [span for group in positives for span in group]
        most = format.max_content  # cut before masking; ``wrap`` would cut after it
        rows = {role: [unit[start:end][:most] for start, end in drawn] for role, drawn in spans.items()}
        labels = {}
        if self.mlm_weight:
            masked = [mask_tokens(content, format, self.mlm_probability, rng) for content in rows["anchor"]]
            rows["anchor"] = [content for content, _ in masked]
            special = len(format.prefix), len(format.suffix)
            labels["anchor"] = [np.pad(label, special, constant_values=IGNORE) for _, label in masked]
        return TokenExample(
            {role: [*map(format.wrap, contents)] for role, contents in rows.items()},
            labels=labels,
            sources={role: [np.arange(*span) for span in drawn] for role, drawn in spans.items()},
        )

    # Loss

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        def embed(tokens: Tokens) -> tuple[Tensor, ...]:
            encoding = encoder(tokens)
            sentence = encoding.sentence if self.head is None else self.head(encoding.sentence)
            mlm = [] if tokens.labels is None else [masked_lm_sum(encoder, encoding.states, tokens.labels)]
            return sentence, *mlm

        anchors = batch.tokens["anchor"]
        # ``all_rows`` gives positives IGNORE labels, so that they add nothing to the MLM loss.
        spans = batch.all_rows(encoder.format.pad_id)
        groups = 1 if encoder.packs(spans) else self.length_groups
        vectors, *sums = embed_in_groups(embed, spans, chunk=self.cache_chunk, groups=groups)
        parts: dict[str, Tensor] = {}
        counts: dict[str, Tensor] = {}
        total = vectors.new_zeros((), dtype=torch.float32)
        if self.contrastive_weight:
            contrastive = self._contrastive(vectors[: len(anchors)], vectors[len(anchors) :])
            parts["contrastive"] = contrastive.detach()
            total = total + self.contrastive_weight * contrastive
        if anchors.labels is not None:
            selected = int((anchors.labels != IGNORE).sum())
            mlm, parts["mlm"], counts["mlm"] = global_mean(sums[0], selected)
            total = total + self.mlm_weight * mlm
        return Loss(total, parts, counts)

    def _contrastive(self, anchors: Tensor, positives: Tensor) -> Tensor:
        """Computes NT-Xent over the anchors and mean positives of all processes.

        Args:
            anchors: of shape (AN, D).
            positives: of shape (AN * P, D), anchor by anchor.
        """
        positives = at_least_float32(positives).unflatten(0, (len(anchors), -1)).mean(dim=1)  # (AN, D)
        anchors = gather_rows(at_least_float32(anchors), legacy_scale=self.legacy_scale)
        positives = gather_rows(positives, legacy_scale=self.legacy_scale)
        # Held-out losses do not use the bank: it holds embeddings of training text, and changes with every step.
        bank = self.bank if self.training else None
        loss = nt_xent(
            anchors,
            positives,
            temperature=self.temperature,
            queue=None if bank is None else bank.negatives(),
            reduction=self.reduction,
        )
        if bank is not None:
            bank.put(anchors)
            bank.put(positives)
        return loss

    # Settings and facts

    def facts(self) -> dict[str, Any]:
        pairs = self.batch_size * self.sampler.anchors_per_document
        return {"negatives per anchor": (2 * pairs - 2 + self.memory_bank) if self.contrastive_weight else 0}
