"""TSDAE: a sentence that lost most of its words is encoded, and the whole of it is written from the vector.

    L = - 1 / N  sum_{j, t}  log p(y_{j,t} | y_{j,<t}, E(x_j))      x_j: what is left of y_j; N: tokens of all y_j

Wang, Reimers and Gurevych (2021), section 3. What is published, and where this differs:

- words are deleted with probability 0.6 each, and one stays at least (``data.views.words`` says what a word is);
- the decoder is the encoder itself (``objectives.tied_decoder``), its output layer included: here the encoder's
  head for masked words, which is exported with it, and made where there is none;
- the sentence vector is the state of [CLS]: here the encoder's, so ``encoder.pooling=cls`` is the published form;
- an encoder that is no transformer gets GenSen's conditional GRU (``objectives.decoder``) over its own tokens;
- sentences that the encoder's positions cannot hold are cut at their end, before words are deleted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from data.batch import IGNORE, Batch, Tokens
from data.loader import Units
from data.ranges import Below1, Size, Width
from data.token_format import TokenFormat
from data.tokenizer import END, SPECIAL, START
from data.views import words
from data.views.perturbations import count_tokens
from encoders.base import Encoder
from objectives.base import Loss, Needs, Objective
from objectives.decoder import Decoder
from objectives.gather import global_mean
from objectives.masked_lm import masked_lm_sum
from objectives.tied_decoder import TiedDecoder, decoder_form

CITATION = """@inproceedings{wang-etal-2021-tsdae,
  title = {{TSDAE}: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence Embedding
           Learning},
  author = {Wang, Kexin and Reimers, Nils and Gurevych, Iryna},
  booktitle = {Findings of EMNLP},
  year = {2021},
  pages = {671--688}
}"""


class Example(NamedTuple):
    """Token ids of what is read and of what is to be written, marks included, of shapes (T,) and (U,)."""

    noisy: np.ndarray
    target: np.ndarray


class TSDAE(Objective):
    """Denoising auto-encoder with a sentence vector between its halves.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        deleted: probability of a word to be deleted.
        word_size: of the GRU decoder's word vectors.
        hidden: of the GRU decoder's states; None: as wide as a sentence vector.
        dropout: of the sentence vector in the GRU decoder.

    Raises:
        ValueError: if an argument is out of range.
    """

    citation = CITATION

    def __init__(
        self,
        *,
        batch_size: Size = 8,
        deleted: Below1 = 0.6,
        word_size: Width = 512,
        hidden: Width | None = None,
        dropout: Below1 = 0.3,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.deleted = deleted
        self.word_size = word_size
        self.hidden = hidden
        self.dropout = dropout
        self.decoder: TiedDecoder | Decoder | None = None
        self.begins = np.zeros(0, dtype=bool)  # which tokens begin a word
        self.mean_length = 0.0  # content tokens

    @property
    def part_names(self) -> tuple[str, ...]:
        return ("reconstruction",)

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    def study(self, units: Units, indices: np.ndarray) -> None:
        """Measures how long sentences are (of very many: of a sample; see ``count_tokens``)."""
        self.mean_length = count_tokens(units, indices)[1]

    def require(self, encoder: Encoder) -> None:
        """Refuses a transformer that has no form as a decoder.

        Raises:
            UnfitError: saying so.
        """
        from encoders.transformer import Transformer  # here, as transformers takes seconds to import

        super().require(encoder)
        if isinstance(encoder, Transformer):
            decoder_form(encoder)

    def build(self, encoder: Encoder) -> None:
        """Makes the decoder.

        Raises:
            UserError: if a transformer has no output layer.
        """
        from encoders.transformer import Transformer  # here, as transformers takes seconds to import

        self.begins = words.beginnings(encoder.tokenizer)
        if isinstance(encoder, Transformer):
            self.decoder = TiedDecoder(encoder)
            encoder.add_mlm_head()
        else:
            self.decoder = Decoder(
                vocabulary=len(SPECIAL) + encoder.format.vocab_size,
                condition=encoder.dimension,
                word_size=self.word_size,
                hidden=self.hidden,
                dropout=self.dropout,
            )

    def draw(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> Example:
        assert self.decoder is not None, "build comes first"
        content = unit[: format.max_content].astype(np.int64)
        noisy = format.wrap(words.delete_words(content, self.begins, self.deleted, rng))
        if isinstance(self.decoder, TiedDecoder):
            return Example(noisy, format.wrap(content))
        # The GRU decoder's marks come first among its ids, whatever marks the encoder has.
        return Example(noisy, np.concatenate([[START], content + len(SPECIAL), [END]]))

    def collate(self, examples: list[Example], format: TokenFormat) -> Batch:
        targets = [example.target for example in examples]
        following = [np.append(target[1:], IGNORE) for target in targets]
        tokens = {
            "noisy": Tokens.pad([example.noisy for example in examples], format.pad_id),
            "target": Tokens.pad(targets, format.pad_id, labels=following),
        }
        return Batch(tokens, size=len(examples))

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        vectors, targets = encoder.vectors(batch.tokens["noisy"]), batch.tokens["target"]
        if isinstance(self.decoder, Decoder):
            total, count = self.decoder.loss(vectors, targets)
        else:
            assert self.decoder is not None and targets.labels is not None, "build comes first"
            total = masked_lm_sum(encoder, self.decoder.states(encoder, vectors, targets), targets.labels)
            count = int((targets.labels != IGNORE).sum())
        total, mean, everywhere = global_mean(total, count)
        return Loss(total, {"reconstruction": mean}, {"reconstruction": everywhere})

    def step_flops(self, encoder: Encoder) -> float:
        """Of sentences of the mean length that ``study`` found."""
        assert self.decoder is not None, "build comes first"
        rows, marks = self.batch_size, len(encoder.format.prefix) + len(encoder.format.suffix)
        length = max(1.0, (1 - self.deleted) * self.mean_length) + marks
        flops = encoder.forward_flops(round(rows * length), length)
        if isinstance(self.decoder, TiedDecoder):
            flops += self.decoder.flops(encoder, rows, round(rows * (self.mean_length + marks)))
        else:
            flops += self.decoder.flops(rows, round(rows * (self.mean_length + 1)))
        return 3 * flops  # forward, and twice as much backward

    def facts(self) -> dict[str, Any]:
        """Which of the two decoders it is."""
        return {"decoder": "the encoder's own" if isinstance(self.decoder, TiedDecoder) else "GRU"}
