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
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from data.batch import Batch, TokenExample
from data.errors import UserError
from data.ranges import Proportion, Size, Width
from data.token_format import TokenFormat
from data.views import perturbations
from data.views.perturbations import Noise, Perturbed
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Objective, Requirements, TaskData
from objectives.classifiers import Classifier, Nonlinearity, classification_loss
from objectives.functional import at_least_float32, choose_first, in_batch_scores
from objectives.gather import gather_rows

ConsSentTask = Literal["D", "P", "I", "R", "C", "N"]
NoiseName = Literal["unigram", "uniform"]
# Tasks that divide a sentence, and those that perturb it; I and R need noise.
PAIRS = {"C": perturbations.split_in_two, "N": perturbations.part_at_random}
PERTURBATIONS: dict[str, Callable[..., Perturbed]] = {
    "D": perturbations.delete,
    "P": perturbations.permute,
    "I": perturbations.insert,
    "R": perturbations.replace,
}
NOISY = ("I", "R")
HALVES = ("first", "second")

CITATION = """@misc{brahma-2018-conssent,
  title = {Unsupervised Learning of Sentence Representations Using Sequence Consistency},
  author = {Brahma, Siddhartha},
  year = {2018},
  eprint = {1808.04217},
  archivePrefix = {arXiv},
  primaryClass = {cs.CL}
}"""


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
    counts: np.ndarray  # of each token id in the training part
    noise: Noise

    def __init__(
        self,
        *,
        batch_size: Size = 64,
        task: ConsSentTask = "D",
        k: Size = 5,
        consistent: Proportion = 0.5,
        noise: NoiseName = "unigram",
        nonlinearity: Nonlinearity = "none",
        classifier_width: Width = 512,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.task: ConsSentTask = task
        self.k = k
        self.consistent = consistent
        self.noise_kind: NoiseName = noise
        self.nonlinearity: Nonlinearity = nonlinearity
        self.classifier_width = classifier_width
        self.least = k if task in PAIRS else 2
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

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        """Returns the usable sentences; counts the tokens of all of the training part (I, R)."""
        if self.task in NOISY:
            self.counts = corpus.store.token_counts(corpus.store.select("train").indices)
        return super().task_data(corpus)

    def build(self, encoder: Encoder) -> None:
        """Adds the classifier (D, P, I, R), and the distribution of inserted and replacing tokens (I, R)."""
        if self.task not in PAIRS:
            self.classifier = Classifier(
                encoder.dimension, width=self.classifier_width, nonlinearity=self.nonlinearity
            )
        if self.task in NOISY:
            weights = self.counts if self.noise_kind == "unigram" else np.ones_like(self.counts)
            self.noise = Noise(weights, encoder.format.special_ids)

    # Examples

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Perturbs a sentence, or leaves it as it is (D, P, I, R); divides it into two parts (C, N)."""
        # Cut, such that inserted tokens fit as well.
        tokens = unit[: format.max_content - (self.k if self.task == "I" else 0)]
        consistent = self.task not in PAIRS and bool(rng.random() < self.consistent)
        consistent |= self.task == "P" and len({*tokens}) == 1  # others are behind the cut
        views: dict[str, Perturbed]
        if self.task in PAIRS:
            views = dict(zip(HALVES, PAIRS[self.task](tokens, rng), strict=True))
        elif consistent:
            views = {"sequence": perturbations.select(tokens, np.arange(len(tokens)))}
        else:
            noise = [self.noise] if self.task in NOISY else []
            views = {"sequence": PERTURBATIONS[self.task](tokens, self.k, rng, *noise)}
        return TokenExample(
            {role: [format.wrap(view.tokens)] for role, view in views.items()},
            {} if self.task in PAIRS else {"consistent": int(consistent)},
            sources={role: [view.sources] for role, view in views.items()},
        )

    # Loss

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        if self.task in PAIRS:
            vectors = encoder.vectors(batch.all_rows(encoder.format.pad_id))  # (2B, D)
            firsts, seconds = (gather_rows(at_least_float32(half)) for half in vectors.chunk(2))
            total, accuracy = choose_first(in_batch_scores(firsts, seconds, self.k))
            mean = total.detach()
        else:
            scores = self.classifier(encoder.vectors(batch.tokens["sequence"]))  # (B, 2)
            total, mean, accuracy = classification_loss(scores, batch.numbers["consistent"])
        return Loss(total, self.name_parts(mean, accuracy))

    # Reports

    def chance_levels(self, size: int) -> dict[str, float]:
        shares = [1 / self.k] * self.k if self.task in PAIRS else [self.consistent, 1 - self.consistent]
        loss = -sum(share * math.log(share) for share in shares)
        return self.name_parts(loss, max(shares))

    def facts(self) -> dict[str, Any]:
        """Returns the task as the paper writes it and, for C and N, the number of negatives."""
        facts: dict[str, Any] = {"task": f"{self.task}({self.k})"}
        return facts | ({"negatives per anchor": self.k - 1} if self.task in PAIRS else {})
