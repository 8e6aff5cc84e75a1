r"""Language modelling: each word from those before it, by a layer on an encoder's states.

    L = - 1 / N  sum_{j, t}  log softmax(V h_{j,t} + d)[w_{j,t+1}]        N: words (and ends) that are predicted

h_t is the encoder's state of w_t, so states must not know what comes after. The layer (V, d) is the objective's
own and is dropped at export. ConsSent's baseline LangMod (Brahma 2018, section 5), of which the paper says no more
than sizes; ours:

- the end of a sentence is predicted as a word is; where the encoder has no token for it, as one more class;
- of a sentence that is longer than the encoder reads, the word after the last one read is predicted, and no end;
- what stands first is predicted only where the encoder puts a token before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from data.batch import IGNORE, Batch, Tokens
from data.errors import UnfitError
from data.loader import Units
from data.ranges import Size
from data.token_format import TokenFormat
from data.views.perturbations import count_tokens
from encoders.base import Encoder
from objectives.base import Loss, Needs, Objective, evaluating
from objectives.conssent import CITATION
from objectives.decoder import output_loss
from objectives.gather import global_mean
from objectives.masked_lm import labelled

CHUNK = 256  # positions whose scores over the vocabulary are held at once
NO_CHANGE = 1e-5  # of a state, relative to the largest: rounding stays below


class Example(NamedTuple):
    """Token ids of a sentence of shape (T,), and after each of them the next one, or ``IGNORE``."""

    tokens: np.ndarray
    following: np.ndarray


class LanguageModel(Objective):
    """Predicts the next word of single sentences.

    Args:
        batch_size: sentences of a micro-batch over all processes.

    Raises:
        ValueError: if it is not positive.
    """

    citation = CITATION
    part_names = ("lm",)

    def __init__(self, *, batch_size: Size = 64) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.mean_length = 0.0
        self.output: nn.Linear | None = None

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    def study(self, units: Units, indices: np.ndarray) -> None:
        _, self.mean_length = count_tokens(units, indices)

    def require(self, encoder: Encoder) -> None:
        """Refuses an encoder whose states know the words that are to be predicted.

        Raises:
            UnfitError: saying so.
        """
        super().require(encoder)
        if sees_ahead(encoder):
            raise UnfitError(
                "objective=language_model predicts each word from those before it, and this encoder's states know "
                "those after it too: take one that reads in one direction (encoder=lstm, or encoder=gru "
                "encoder.bidirectional=false)."
            )

    def build(self, encoder: Encoder) -> None:
        """Makes the output layer."""
        self.output = nn.Linear(encoder.state_dimension, encoder.format.vocab_size + 1)

    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Example:
        """One example of one sentence; nothing in it is random."""
        tokens = format.wrap(unit)
        following = np.append(tokens[1:], IGNORE if format.suffix else format.vocab_size)
        if len(unit) > format.max_content:
            following[len(format.prefix) + format.max_content - 1] = unit[format.max_content]
        return Example(tokens, following)

    def collate(self, examples: list[Example], format: TokenFormat) -> Batch:
        tokens, following = zip(*examples, strict=True)
        return Batch({"sentence": Tokens.pad(tokens, format.pad_id, following)}, size=len(examples))

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        assert self.output is not None, "build comes first"
        sentences = batch.tokens["sentence"]
        assert sentences.labels is not None, "collate gives them"
        states, wanted = labelled(encoder(sentences).states, sentences.labels)
        total, mean, count = global_mean(output_loss(self.output, states, wanted, CHUNK), len(wanted))
        return Loss(total, {"lm": mean}, {"lm": count})

    def step_flops(self, encoder: Encoder) -> float:
        """Of sentences of the mean length that ``study`` found."""
        assert self.output is not None, "build comes first"
        length = self.mean_length + len(encoder.format.prefix) + len(encoder.format.suffix)
        tokens = round(self.batch_size * length)
        return 3 * (encoder.forward_flops(tokens, length) + 2.0 * tokens * self.output.weight.numel())

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Besides the loss, ``dev_lm_perplexity``: its exponential."""
        found = super().dev_metrics(encoder, batches)
        return found | {"dev_lm_perplexity": math.exp(found["dev_lm"])} if found else found


def sees_ahead(encoder: Encoder) -> bool:
    """Whether the state of a token changes with the token after it: tried on two sentences."""
    format = encoder.format
    words = (number for number in range(format.vocab_size) if number not in format.special_ids)
    one, other = islice(words, 2)
    rows = [format.wrap(np.array(row)) for row in ((one, one), (one, other))]
    with evaluating(encoder):
        tokens = Tokens.pad(rows, format.pad_id).to(next(encoder.parameters()).device)
        first, second = encoder(tokens).states[:, len(format.prefix)]
    return bool((first - second).abs().max() > NO_CHANGE * torch.maximum(first.abs(), second.abs()).max())
