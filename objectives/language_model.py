r"""Language modelling: predicts each word from those before it, by an output layer on the encoder's states.

    L = - 1 / N  sum_{j, t}  log softmax(V h_{j,t} + d)[w_{j,t+1}]        N: predicted words and ends

h_t is the encoder's state of w_t, which must not depend on later words. The output layer (V, d) belongs to the
objective and is dropped at export. This is ConsSent's baseline LangMod (Brahma 2018, section 5), of which the
paper gives only the sizes. Our choices:

- the end of a sentence is predicted like a word, as an extra class if the encoder has no token for it;
- for a sentence longer than the encoder's positions, the word after the last one read is predicted, but no end;
- the first word is predicted only if the encoder puts a token before it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from data.batch import IGNORE, Batch, TokenExample, Tokens
from data.errors import UnfitError
from data.ranges import Size
from data.token_format import TokenFormat
from encoders.base import Encoder
from objectives.base import Loss, Objective, Requirements, evaluating
from objectives.conssent import CITATION
from objectives.decoder import CHUNK, cross_entropy_sum
from objectives.gather import global_mean
from objectives.masked_lm import labelled_states

NO_CHANGE = 1e-5  # largest change of a state, relative to the largest state, that may be rounding


class LanguageModel(Objective):
    """Language model of single sentences.

    Args:
        batch_size: sentences of a micro-batch over all processes.
    """

    citation = CITATION
    formula = r"L = -\frac{1}{N} \sum_{j,\,t} \log\, \mathrm{softmax}(V h_{j,t} + d)_{w_{j,t+1}}"
    part_names = perplexities = ("lm",)
    requirements = Requirements(unit="sentence")
    output: nn.Linear

    def __init__(self, *, batch_size: Size = 64) -> None:
        super().__init__()
        self.batch_size = batch_size

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuses an encoder whose states depend on later words.

        Raises:
            UnfitError: if so.
        """
        super().check_encoder(encoder)
        if sees_ahead(encoder):
            raise UnfitError(
                "a language model needs an encoder that reads in one direction",
                key=encoder.origin,
                hint="encoder=lstm, or encoder=gru encoder.bidirectional=false.",
            )

    def build(self, encoder: Encoder) -> None:
        """Adds the output layer."""
        self.output = nn.Linear(encoder.state_dimension, encoder.format.vocab_size + 1)

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        """Returns the sentence, labelled with the next token of each token; nothing is random."""
        tokens = format.wrap(unit)
        following = np.append(tokens[1:], IGNORE if format.suffix else format.vocab_size)
        if len(unit) > format.max_content:
            following[len(format.prefix) + format.max_content - 1] = unit[format.max_content]
        return TokenExample({"sentence": [tokens]}, labels={"sentence": [following]})

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        sentences = batch.tokens["sentence"]
        assert sentences.labels is not None, "sample gives them"
        states, targets = labelled_states(encoder(sentences).states, sentences.labels)
        total, mean, count = global_mean(cross_entropy_sum(self.output, states, targets, CHUNK), len(targets))
        return Loss(total, {"lm": mean}, {"lm": count})


def sees_ahead(encoder: Encoder) -> bool:
    """Returns whether a token's state depends on the token after it, tried out with two sentences."""
    format = encoder.format
    one, other, *_ = (number for number in range(format.vocab_size) if number not in format.special_ids)
    rows = [format.wrap(np.array(row)) for row in ((one, one), (one, other))]
    with evaluating(encoder):
        first, second = encoder(Tokens.pad(rows, format.pad_id)).states[:, len(format.prefix)]
    return not torch.allclose(first, second, rtol=0, atol=NO_CHANGE * float(first.abs().max()))
