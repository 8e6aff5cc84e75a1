"""ConsSent: a sentence against what it becomes when perturbed, or its two parts against others' (Brahma 2018).

    D, P, I, R    l(S) = -log softmax(classifier(E(S')))[whether S' = S]
    C, N          l(S_i) = -log  exp(E(a_i) . E(b_i)) / sum_{j in C_i} exp(E(a_i) . E(b_j))

S' is the sentence, or with probability 1/2 what ``data.views.perturbations`` makes of it; a_i and b_i are the two
parts of a sentence; C_i is i and k - 1 others. Sections 3 and 4 of the paper, whose program was never published.
Ours, where it is silent:

- C and N: it only asks that the own part's score be the largest; the loss is QuickThoughts' (Logeswaran and Lee
  2018), and the k - 1 others are the next rows of the batch, whose order is random;
- tokens "not in S" come from the corpus' unigram distribution (``noise``);
- sentences that the encoder's positions cannot hold are cut at their end, before they are perturbed.

One departure: in the paper the second parts of the k - 1 others are other sequences than b_i. This is not checked
here: parts of real sentences are seldom equal.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batch import Batch, Tokens
from data.errors import UserError
from data.loader import Units
from data.ranges import Proportion, Size, Width
from data.token_format import TokenFormat
from data.views import perturbations
from data.views.perturbations import Noise
from encoders.base import Encoder
from objectives.base import Loss, Needs, Objective
from objectives.classifiers import Classifier, Nonlinearity
from objectives.functional import at_least_float32, choose_first, in_batch_scores
from objectives.gather import gather_rows, sum_over_processes, world_size

TaskName = Literal["D", "P", "I", "R", "C", "N"]
NoiseName = Literal["unigram", "uniform"]
PAIRS = ("C", "N")

CITATION = """@misc{brahma-2018-conssent,
  title = {Unsupervised Learning of Sentence Representations Using Sequence Consistency},
  author = {Brahma, Siddhartha},
  year = {2018},
  eprint = {1808.04217},
  archivePrefix = {arXiv},
  primaryClass = {cs.CL}
}"""


class Single(NamedTuple):
    """What D, P, I and R draw from a sentence: token ids of shape (T,), and whether it stayed as it is."""

    tokens: np.ndarray
    consistent: bool


class Parts(NamedTuple):
    """What C and N draw from a sentence: token ids of its two parts, of shapes (T,) and (U,)."""

    first: np.ndarray
    second: np.ndarray


class ConsSent(Objective):
    """One of the paper's six tasks.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        task: D deletes, P permutes, I inserts, R replaces tokens; C and N find the other part of a sentence that
            was cut in two, or whose tokens were dealt to two.
        k: tokens that are deleted, permuted, inserted or replaced (the paper: 1 to 5; P: 2 to 6), or parts to
            choose among (2 to 6).
        consistent: probability of a sentence to stay as it is (D, P, I, R).
        noise: where the tokens that I and R put in come from, the corpus' "unigram" distribution or the "uniform"
            one over the vocabulary.
        nonlinearity: between the classifier's layers, "none", "tanh" or "relu" (D, P, I, R).
        classifier_width: of the classifier's layers.

    Sentences that are too short for ``k`` are no examples at all: ``needs`` has them skipped and counted.

    Raises:
        ValueError: if an argument is out of range.
    """

    citation = CITATION
    version = 2  # 1 cut a sentence one token later for C

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        task: TaskName = "D",
        k: Size = 5,
        consistent: Proportion = 0.5,
        noise: NoiseName = "unigram",
        nonlinearity: Nonlinearity = "none",
        classifier_width: Width = 512,
    ) -> None:
        super().__init__()
        if task not in ("D", "I", "R") and k < 2:
            raise ValueError(f"objective.k must be at least 2 for task {task}. Got {k} instead.")
        if task in PAIRS and k > batch_size:
            raise ValueError(
                f"objective.k must not exceed objective.batch_size ({batch_size}): the parts to choose among are "
                f"those of one batch. Got {k} instead."
            )
        self.batch_size = batch_size
        self.task: TaskName = task
        self.k = k
        self.consistent = consistent
        self.noise_kind: NoiseName = noise
        self.nonlinearity: Nonlinearity = nonlinearity
        self.classifier_width = classifier_width
        self.classifier: Classifier | None = None
        self.noise: Noise | None = None
        self.counts = np.zeros(0, np.int64)  # of each token id in the training part
        self.mean_length = 0.0

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.task, f"{self.task}_accuracy"

    @property
    def needs(self) -> Needs:
        least = {"D": self.k + 1, "P": self.k, "I": 1, "R": self.k, "C": 3, "N": 2}[self.task]
        permutes = self.task == "P"
        return Needs(
            unit="sentence",
            min_tokens=least,
            different_tokens=permutes,
            order=permutes,
            shorter=self._shorter,
        )

    def _shorter(self, tokens: int) -> str:
        """Returns the setting with which a sentence of so many tokens is long enough."""
        k = tokens - 1 if self.task == "D" else tokens
        return f"objective.k={k}" if self.task in ("D", "P", "R") and k >= 1 + (self.task == "P") else ""

    def study(self, units: Units, indices: np.ndarray) -> None:
        """Counts the tokens of the training part (of very large ones: of a sample; see ``count_tokens``)."""
        self.counts, self.mean_length = perturbations.count_tokens(units, indices)

    def require(self, encoder: Encoder) -> None:
        """Refuses an encoder whose positions cannot hold a sentence that can be perturbed.

        Raises:
            UserError: saying so.
        """
        super().require(encoder)
        if self._room(encoder.format) < self.needs.min_tokens:
            raise UserError(
                f"objective.k={self.k} is too many for an encoder of {encoder.format.max_length} positions."
            )

    def build(self, encoder: Encoder) -> None:
        """Makes the classifier and what tokens are drawn from.

        Raises:
            UserError: if tokens would be drawn by their number from a vocabulary that is not numbered through.
        """
        if self.task not in PAIRS:
            self.classifier = Classifier(
                encoder.dimension, width=self.classifier_width, nonlinearity=self.nonlinearity
            )
        if self.task in ("I", "R"):
            size = encoder.format.vocab_size
            if len(self.counts) > size:
                raise UserError(
                    f"The encoder's vocabulary has {size:,} tokens, but the text has one numbered "
                    f"{len(self.counts) - 1:,}, and {self.task} draws tokens by their number: take another "
                    "encoder or task."
                )
            unigram = np.pad(self.counts, (0, size - len(self.counts)))
            weights = unigram if self.noise_kind == "unigram" else np.ones(size, np.int64)
            self.noise = Noise(weights, encoder.format.special_ids)

    # Text

    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Single | Parts:
        """One example of one sentence.

        Raises:
            ValueError: if the sentence is not what ``needs`` asks for, be it to be perturbed or not.
            UserError: if it is, but not the part of it that the encoder's positions hold.
        """
        tokens, needs = unit[: self._room(format)], self.needs
        if needs.different_tokens and (tokens == tokens[:1]).all() and (unit != tokens[:1]).any():
            raise UserError(
                f"A sentence begins with {len(tokens)} equal tokens, and an encoder of {format.max_length} "
                f"positions holds no more of it, which {self.task} cannot permute: raise encoder.max_length."
            )
        if len(tokens) < needs.min_tokens or (needs.different_tokens and (tokens == tokens[0]).all()):
            different = " and two different ones" if needs.different_tokens else ""
            raise ValueError(
                f"A sentence for {self.task}({self.k}) must have at least {needs.min_tokens} tokens{different}. "
                f"Got {tokens.tolist()} instead."
            )
        if self.task in PAIRS:
            part = perturbations.split_in_two if self.task == "C" else perturbations.part_at_random
            first, second = part(tokens, rng)
            return Parts(format.wrap(first), format.wrap(second))
        consistent = bool(rng.random() < self.consistent)
        return Single(format.wrap(tokens if consistent else self._perturbed(tokens, rng)), consistent)

    def _perturbed(self, tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.task == "D":
            return perturbations.delete(tokens, self.k, rng)
        if self.task == "P":
            return perturbations.permute(tokens, self.k, rng)
        assert self.noise is not None, "build comes first"
        change = perturbations.insert if self.task == "I" else perturbations.replace
        return change(tokens, self.k, rng, self.noise)

    def _room(self, format: TokenFormat) -> int:
        """Tokens of a sentence that are used; what is inserted has to fit as well."""
        return format.max_content - (self.k if self.task == "I" else 0)

    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        if self.task in PAIRS:
            tokens = {
                name: Tokens.pad([getattr(example, name) for example in examples], format.pad_id)
                for name in Parts._fields
            }
            return Batch(tokens, size=len(examples), task=self.task)
        return Batch(
            {"sequence": Tokens.pad([example.tokens for example in examples], format.pad_id)},
            {"consistent": torch.tensor([example.consistent for example in examples], dtype=torch.int64)},
            size=len(examples),
            task=self.task,
        )

    # Loss

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return self._pair_loss(encoder, batch) if self.task in PAIRS else self._sequence_loss(encoder, batch)

    def _sequence_loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert self.classifier is not None, "build comes first"
        logits = at_least_float32(self.classifier(encoder.vectors(batch.tokens["sequence"])))  # (B, 2)
        classes = batch.numbers["consistent"]
        loss = F.cross_entropy(logits, classes)  # processes have equal shares, so their mean is the global batch's
        right = (logits.argmax(dim=1) == classes).to(logits.dtype).mean()
        parts = sum_over_processes(torch.stack([loss, right])) / world_size()
        return self._told(loss, parts[0], parts[1])

    def _pair_loss(self, encoder: Encoder, batch: Batch) -> Loss:
        first, second = (batch.tokens[name] for name in Parts._fields)
        vectors = encoder.vectors(Tokens.cat([first, second], encoder.format.pad_id))  # (2B, D)
        firsts, seconds = (gather_rows(at_least_float32(half)) for half in vectors.split(len(first)))
        if len(firsts) < self.k:
            raise UserError(
                f"A batch of {len(firsts)} sentences has fewer than objective.k={self.k} parts to choose among: "
                "lower objective.k, or raise corpus.dev_fraction if it is the held-out part that is so small."
            )
        loss, right = choose_first(in_batch_scores(firsts, seconds, self.k))
        return self._told(loss, loss.detach(), right)

    def _told(self, total: Tensor, loss: Tensor, accuracy: Tensor) -> Loss:
        return Loss(total, dict(zip(self.part_names, (loss, accuracy), strict=True)))

    # Cost

    def step_flops(self, encoder: Encoder) -> float:
        """Of sentences of the mean length that ``study`` found."""
        if self.task in PAIRS:
            rows, length = 2 * self.batch_size, self.mean_length / 2
        else:
            change = {"D": -self.k, "I": self.k}.get(self.task, 0) * (1 - self.consistent)
            rows, length = self.batch_size, self.mean_length + change
        length += len(encoder.format.prefix) + len(encoder.format.suffix)
        flops = encoder.forward_flops(round(rows * length), length)
        if self.classifier is not None:
            flops += self.classifier.flops(rows)
        return 3 * flops  # forward, and twice as much backward

    def chances(self) -> dict[str, float]:
        shares = [1 / self.k] * self.k if self.task in PAIRS else [self.consistent, 1 - self.consistent]
        loss = -sum(share * math.log(share) for share in shares)
        return dict(zip(self.part_names, (loss, max(shares)), strict=True))

    def facts(self) -> dict[str, Any]:
        """The task as the paper writes it, and how many parts of others the own one is chosen against."""
        facts: dict[str, Any] = {"task": f"{self.task}({self.k})"}
        return facts | ({"negatives per anchor": self.k - 1} if self.task in PAIRS else {})
