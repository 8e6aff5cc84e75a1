"""Mean of a sentence's word vectors, over the words that have one; trainable.

    sentence = (1 / n) sum_i v(w_i)        (n known words; zeros where n = 0)

SentEval (Conneau and Kiela 2018), ``examples/bow.py``. Weighted means: ``encoders.word_weights``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast

from data.batch import Tokens
from data.errors import UserError, reading
from data.ranges import Existing, Positive
from data.sources.reading import lines
from data.token_format import TokenFormat
from data.vectors import WordVectors
from encoders.api import Encoding
from encoders.base import Encoder
from encoders.pooling import pool
from encoders.saving import NO_LIMIT, WEIGHTS, read_marker, read_weights, write_modules
from encoders.word_weights import Weighting, weigh

WORDS, TOKENIZER = "embedding.weight", "tokenizer.json"  # sentence-transformers' names


class BagOfWords(Encoder):
    """A mean of word vectors.

    A text is split at white space; a word without a vector is not counted.

    Args:
        vectors: file of word vectors (see ``data.vectors``).
        path: a folder that ``save`` wrote, instead of ``vectors``.
        weights: "auto" or "pretrained", which are the same here.
        lowercase: whether words are looked up in lower case; a folder has its own setting.
        weighting: of the words in the mean, "none" or "sif"; a folder has its own setting.
        counts: text file (.gz too) in which words are counted for it, one sentence per line, with words separated
            as in the sentences to encode; needed with weighting="sif".
        sif_a: the constant a of SIF.

    Raises:
        UserError: if there is nothing to open or to count.
    """

    reads_order = False
    poolings = ("mean",)

    def __init__(
        self,
        *,
        vectors: Existing | None = None,
        path: Existing | None = None,
        weights: Literal["auto", "pretrained"] = "auto",
        lowercase: bool = False,
        weighting: Weighting = "none",
        counts: Existing | None = None,
        sif_a: Positive = 1e-3,
    ) -> None:
        super().__init__()
        if path is not None:
            folder = Path(path).expanduser()
            with reading("bag of words", folder):
                marker = read_marker(folder)
                self.weights, self.origin = marker["weights"], marker["origin"]
                backend = Tokenizer.from_file(str(folder / TOKENIZER))
                table = read_weights(folder / WEIGHTS)[WORDS]
        elif vectors is not None:
            file = WordVectors(vectors)
            table, backend = file.vectors, word_tokenizer(file.words, lowercase)
            self.weights = "pretrained"
            self.origin = f"word vectors of {vectors}"
            if weighting != "none":
                if counts is None:
                    raise UserError(f"not set, and weighting={weighting} needs a text", key="encoder.counts")
                text = (line.lower() if lowercase else line for line in lines(counts))
                number = weigh(table, file.words, filter(str.strip, text), sif_a)
                self.origin += f", weighted by {weighting} from {number:,} sentences of {counts}"
        else:
            raise UserError("must be a file of word vectors", key="encoder.vectors")
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=NO_LIMIT)
        self.embedding = nn.Embedding.from_pretrained(table, freeze=False)
        self.dimension = self.state_dimension = table.shape[1]
        self.format = TokenFormat((), (), 0, None, len(table), NO_LIMIT, frozenset())
        self.eval()

    def forward(self, tokens: Tokens) -> Encoding:
        states = self.embedding(tokens.ids)  # (B, T, D)
        return Encoding(states, tokens.mask, pool(states, tokens.mask, "mean"))

    def write_files(self, folder: Path) -> dict[str, Any]:
        save_file({WORDS: self.embedding.weight.detach().cpu()}, folder / WEIGHTS)
        self.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
        write_modules(folder, [("", "StaticEmbedding")])
        return {}


def word_tokenizer(words: Sequence[str], lowercase: bool) -> Tokenizer:
    """Returns a tokenizer of whole words, separated at white space, that leaves out those it does not know.

    It is a BPE without merges: the tokenizers library's model of whole words, WordLevel, replaces unknown words by
    an unknown token, which sentence-transformers would count in the mean. The blank before each word keeps letters
    of an unknown word from being taken for the words "a" or "I".
    """
    vocabulary = {f" {word}": number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.normalizer = normalizers.Lowercase() if lowercase else None
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=" ", prepend_scheme="always", split=False),
        ]
    )
    return tokenizer
