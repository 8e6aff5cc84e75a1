"""TSDAE: denoising auto-encoder that reconstructs a sentence from the vector of its remaining words.

    L = - 1 / N  sum_{j, t}  log p(y_{j,t} | y_{j,<t}, E(x_j))      x_j: y_j after deletion; N: tokens of all y_j

Wang, Reimers and Gurevych (2021), section 3, and where this implementation goes beyond it:

- each word is deleted with probability 0.6, but at least one stays (``data.views.words`` defines words);
- the decoder shares the encoder's weights (``objectives.tied_decoder``). Its output layer is the encoder's MLM
  head, which is exported with the encoder, and added if there is none;
- the sentence vector is the encoder's; the paper's is the state of [CLS], ``encoder.pooling=cls``;
- other encoders, and transformers without cross-attention or MLM head, get GenSen's conditional GRU decoder
  (``objectives.decoder``) over their tokens;
- sentences longer than the encoder's positions are cut at their end before words are deleted.
"""

from __future__ import annotations

import contextlib

import numpy as np

from data.batch import IGNORE, Batch, TokenExample
from data.errors import UnfitError
from data.ranges import Below1, Size, Width
from data.token_format import TokenFormat
from data.tokenizer import END, SPECIAL, START
from data.views import words
from encoders.base import Encoder
from objectives.base import Loss, Objective, Requirements
from objectives.decoder import Decoder
from objectives.gather import global_mean
from objectives.masked_lm import masked_lm_sum
from objectives.tied_decoder import TiedDecoder

CITATION = """@inproceedings{wang-etal-2021-tsdae,
  title = {{TSDAE}: Using Transformer-based Sequential Denoising Auto-Encoder for Unsupervised Sentence Embedding
           Learning},
  author = {Wang, Kexin and Reimers, Nils and Gurevych, Iryna},
  booktitle = {Findings of EMNLP},
  year = {2021},
  pages = {671--688}
}"""


class TSDAE(Objective):
    """Denoising auto-encoder with the sentence vector as its bottleneck.

    Args:
        batch_size: sentences of a micro-batch over all processes.
        deleted: probability of a word to be deleted.
        word_size: width of the GRU decoder's word vectors.
        hidden: width of the GRU decoder's states; None: that of a sentence vector.
        dropout: dropout probability of the sentence vector in the GRU decoder.
    """

    citation = CITATION
    formula = r"L = -\frac{1}{N} \sum_{j,\,t} \log p\,(y_{j,t} \mid y_{j,<t},\ E(\tilde{y}_j))"
    part_names = ("reconstruction",)
    requirements = Requirements(unit="sentence")
    decoder: TiedDecoder | Decoder
    begins: np.ndarray  # whether a token id begins a word, of shape (vocabulary,)

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

    def build(self, encoder: Encoder) -> None:
        """Adds the decoder, and the MLM head of a transformer that has none and decodes itself."""
        from encoders.transformer import Transformer  # here, as transformers takes seconds to import

        self.begins = words.word_start_mask(encoder.tokenizer)
        if isinstance(encoder, Transformer):
            with contextlib.suppress(UnfitError):
                self.decoder = TiedDecoder(encoder)
                encoder.add_mlm_head()
                return
        self.decoder = Decoder(
            vocabulary=len(SPECIAL) + encoder.format.vocab_size,
            condition=encoder.dimension,
            word_size=self.word_size,
            hidden=self.hidden,
            dropout=self.dropout,
        )

    def sample(self, unit: np.ndarray, format: TokenFormat, rng: np.random.Generator) -> TokenExample:
        content = unit[: format.max_content].astype(np.int64)
        noisy = words.delete_words(content, self.begins, self.deleted, rng)
        target = format.wrap(content)
        if isinstance(self.decoder, Decoder):
            # It has special tokens of its own, whose ids come before those of the encoder's vocabulary.
            target = np.concatenate([[START], content + len(SPECIAL), [END]])
        return TokenExample(
            {"noisy": [format.wrap(noisy.tokens)], "target": [target]},
            labels={"target": [np.append(target[1:], IGNORE)]},
            sources={"noisy": [noisy.sources]},
        )

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        vectors, targets = encoder.vectors(batch.tokens["noisy"]), batch.tokens["target"]
        if isinstance(self.decoder, Decoder):
            total, count = self.decoder.loss(vectors, targets)
        else:
            assert targets.labels is not None, "sample gives them"
            total = masked_lm_sum(encoder, self.decoder.states(encoder, vectors, targets), targets.labels)
            count = int((targets.labels != IGNORE).sum())
        total, mean, everywhere = global_mean(total, count)
        return Loss(total, {"reconstruction": mean}, {"reconstruction": everywhere})
