"""ConsSent: learning sentence vectors from sequence consistency (Brahma 2018).

    D, P, I, R    l(S) = -log softmax(classifier(E(S')))[is S' = S?]
    C, N          l(S_i) = -log  exp(E(a_i) . E(b_i)) / sum_{j in C_i} exp(E(a_i) . E(b_j))

S' is the sentence S or, with probability 1/2, a perturbation of it (``data.views.perturbations``); a_i and b_i are
the two parts of sentence S_i; C_i holds i and k - 1 other sentences. Sections 3 and 4 of the paper, whose program
was never published. Where the paper leaves a choice open:

- C and N: the paper only asks that the score of the sentence's own second part be the largest. The loss is
  QuickThoughts' (Logeswaran and Lee 2018), and the k - 1 others are the next rows of the batch, in random order;
- inserted and replacing tokens are sampled from the corpus' unigram distribution (``noise``);
- sentences longer than the encoder's positions are cut at their end before they are perturbed.

One departure from the paper: there the second parts of the k - 1 others differ from b_i. This is not checked here,
as parts of real sentences are rarely equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from data.batch import Batch, Tokens
from data.errors import UserError
from data.ranges import Proportion, Size, Width
from data.token_format import TokenFormat
from data.views import perturbations
from data.views.perturbations import Noise, Perturbed
from encoders.base import Encoder
from objectives.base import Loss, Objective, Requirements
from objectives.classifiers import Classifier, Nonlinearity, classification_loss, classifier_flops
from objectives.functional import at_least_float32, choose_first, forward_flops, in_batch_scores
from objectives.gather import gather_rows

TaskName = Literal["D", "P", "I", "R", "C", "N"]
NoiseName = Literal["unigram", "uniform"]
PAIRS = ("C", "N")
HALVES = ("first", "second")

CITATION = """@misc{brahma-2018-conssent,
  title = {Unsupervised Learning of Sentence Representations Using Sequence Consistency},
  author = {Brahma, Siddhartha},
  year = {2018},
  eprint = {1808.04217},
  archivePrefix = {arXiv},
  primaryClass = {cs.CL}
}"""


class Single(NamedTuple):
    """Example of D, P, I or R: token ids of shape (T,), and whether the sentence is unperturbed.

    ``sources``: positions of the tokens in the sentence (``data.views.perturbations.Perturbed``).
    """

    tokens: np.ndarray
    consistent: bool
    sources: np.ndarray


class Parts(NamedTuple):
    """Example of C or N: token ids of the two parts of a sentence, of shapes (T,) and (U,).

    ``sources``: positions of their tokens in the sentence.
    """

    first: np.ndarray
    second: np.ndarray
    sources: tuple[np.ndarray, np.ndarray]


class ConsSent(Objective):
    """One of the six tasks of ConsSent.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        task: D, P, I and R classify whether tokens of a sentence were deleted, permuted, inserted or replaced; C
            and N find the second part of a sentence that was cut in two (C), or whose tokens were assigned to two
            parts at random (N).
        k: number of tokens deleted, permuted, inserted or replaced (the paper: 1 to 5; P: 2 to 6), or of
            second parts to choose among (2 to 6).
        consistent: probability that a sentence is left unperturbed (D, P, I, R).
        noise: distribution of the tokens that I and R put in, the corpus' "unigram" distribution or "uniform" over
            the vocabulary.
        nonlinearity: activation between the classifier's layers, "none", "tanh" or "relu" (D, P, I, R).
        classifier_width: width of the classifier's hidden layers (D, P, I, R).

    Sentences too short for ``k`` are skipped and counted, never passed as consistent.

    Raises:
        UserError: if ``k`` does not fit the task or the batch.
    """

    citation = CITATION
    formula = (
        r"D, P, I, R: \quad l(S) = -\log\, \mathrm{softmax}(\mathrm{classifier}(E(S')))_{[S' = S]}"
        "\n"
        r"C, N: \quad l(S_i) = -\log \dfrac{\exp(E(a_i) \cdot E(b_i))}{\sum_{j \in C_i} \exp(E(a_i) \cdot E(b_j))}"
    )
    version = 2  # version 1 cut sentences one token later (C)
    classifier: Classifier
    noise: Noise

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
        self.batch_size = batch_size
        self.task: TaskName = task
        self.k = k
        self.consistent = consistent
        self.noise_kind: NoiseName = noise
        self.nonlinearity: Nonlinearity = nonlinearity
        self.classifier_width = classifier_width
        if task not in ("D", "I", "R") and k < 2:
            raise UserError(f"must be at least 2 for task {task}", key="objective.k")
        if task in PAIRS and k > batch_size:
            raise UserError(f"must be at most batch_size={batch_size} for task {task}", key="objective.k")

    @property
    def part_names(self) -> tuple[str, ...]:
        return self.task, f"{self.task}_accuracy"

    @property
    def requirements(self) -> Requirements:
        fewest = {"D": self.k + 1, "P": self.k, "I": 1, "R": self.k, "C": 3, "N": 2}[self.task]
        permutes = self.task == "P"
        return Requirements("sentence", fewest, different_tokens=permutes, word_order=permutes)

    @property
    def least_batch(self) -> int:
        return self.k if self.task in PAIRS else super().least_batch

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder whose inputs are too short for any sentence that ``k`` allows.

        Raises:
            UserError: if so; UnfitError: see ``Objective``.
        """
        super().check_encoder(encoder)
        if self._max_tokens(encoder.format) < self.requirements.min_tokens:
            positions = encoder.format.max_length
            raise UserError(f"too large for an encoder of {positions} positions", key=f"objective.k={self.k}")

    def build(self, encoder: Encoder) -> None:
        """Adds the classifier (D, P, I, R), and the distribution of inserted and replacing tokens (I, R).

        Raises:
            UserError: if the text has token ids that are outside the encoder's vocabulary (I, R).
        """
        if self.task not in PAIRS:
            self.classifier = Classifier(
                encoder.dimension, width=self.classifier_width, nonlinearity=self.nonlinearity
            )
        if self.task in ("I", "R"):
            size, counts = encoder.format.vocab_size, self.statistics.token_counts
            if len(counts) > size:
                raise UserError(
                    f"the vocabulary has {size:,} tokens, and the text the token id {len(counts) - 1:,}",
                    key=encoder.origin,
                )
            unigram = np.pad(counts, (0, size - len(counts)))
            weights = unigram if self.noise_kind == "unigram" else np.ones(size, np.int64)
            self.noise = Noise(weights, encoder.format.special_ids)

    # Examples

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Single | Parts:
        """Perturbs a sentence, or leaves it as it is (D, P, I, R); divides it into two parts (C, N).

        Raises:
            UserError: if the part of it that fits into the encoder's positions has no two different tokens (P).
        """
        tokens = unit[: self._max_tokens(format)]
        if self.task == "P" and (tokens == tokens[0]).all():
            raise UserError(
                f"a sentence begins with {len(tokens)} equal tokens, which {self.task} cannot permute",
                key="encoder.max_length",
            )
        if self.task in PAIRS:
            part = perturbations.split_in_two if self.task == "C" else perturbations.part_at_random
            first, second = part(tokens, rng)
            return Parts(format.wrap(first.tokens), format.wrap(second.tokens), (first.sources, second.sources))
        consistent = bool(rng.random() < self.consistent)
        row = Perturbed(tokens, np.arange(len(tokens))) if consistent else self._perturb(tokens, rng)
        return Single(format.wrap(row.tokens), consistent, row.sources)

    def _perturb(self, tokens: np.ndarray, rng: np.random.Generator) -> Perturbed:
        if self.task == "D":
            return perturbations.delete(tokens, self.k, rng)
        if self.task == "P":
            return perturbations.permute(tokens, self.k, rng)
        change = perturbations.insert if self.task == "I" else perturbations.replace
        return change(tokens, self.k, rng, self.noise)

    def sources(self, example: Single | Parts) -> Mapping[str, Sequence[np.ndarray]]:
        if isinstance(example, Parts):
            return {name: [part] for name, part in zip(HALVES, example.sources, strict=True)}
        return {"sequence": [example.sources]}

    def _max_tokens(self, format: TokenFormat) -> int:
        """Returns the most tokens of a sentence that are used, such that inserted tokens fit as well."""
        return format.max_content - (self.k if self.task == "I" else 0)

    def collate(self, examples: list[Any], format: TokenFormat) -> Batch:
        if self.task in PAIRS:
            tokens = {
                name: Tokens.pad([getattr(example, name) for example in examples], format.pad_id)
                for name in HALVES
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
        if self.task in PAIRS:
            first, second = (batch.tokens[name] for name in HALVES)
            vectors = encoder.vectors(Tokens.cat([first, second], encoder.format.pad_id))  # (2B, D)
            firsts, seconds = (gather_rows(at_least_float32(half)) for half in vectors.split(len(first)))
            total, accuracy = choose_first(in_batch_scores(firsts, seconds, self.k))
            mean = total.detach()
        else:
            scores = self.classifier(encoder.vectors(batch.tokens["sequence"]))  # (B, 2)
            total, mean, accuracy = classification_loss(scores, batch.numbers["consistent"])
        return Loss(total, dict(zip(self.part_names, (mean, accuracy), strict=True)))

    # Cost and chance

    def step_flops(self, encoder: Encoder) -> float:
        if self.task in PAIRS:
            rows, length = 2 * self.batch_size, self.statistics.mean_length / 2
        else:
            change = {"D": -self.k, "I": self.k}.get(self.task, 0) * (1 - self.consistent)
            rows, length = self.batch_size, self.statistics.mean_length + change
        flops = forward_flops(encoder, rows, length)
        if self.task not in PAIRS:
            flops += classifier_flops(self.classifier, rows)
        return 3 * flops  # a backward pass costs two forward passes

    def chance_levels(self) -> dict[str, float]:
        shares = [1 / self.k] * self.k if self.task in PAIRS else [self.consistent, 1 - self.consistent]
        loss = -sum(share * math.log(share) for share in shares)
        return dict(zip(self.part_names, (loss, max(shares)), strict=True))

    def facts(self) -> dict[str, Any]:
        """Returns the task as the paper writes it and, for C and N, the number of negatives."""
        facts: dict[str, Any] = {"task": f"{self.task}({self.k})"}
        return facts | ({"negatives per anchor": self.k - 1} if self.task in PAIRS else {})
