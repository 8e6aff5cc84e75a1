"""Mean of a sentence's word vectors, over the words that have one; trainable.

    sentence = (1 / n) sum_i v(w_i)        (n known words; zeros where n = 0)

SentEval (Conneau and Kiela 2018), ``examples/bow.py``. Weighted means: ``encoders.word_weights``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from data.batch import Tokens
from data.errors import UserError, reading
from data.ranges import Existing, Positive
from data.sentences import splitter
from data.sources.reading import lines
from data.token_format import TokenFormat
from data.vectors import WordVectors
from data.vocabulary import word_separator
from encoders.base import Encoder, Encoding
from encoders.folder import NO_LIMIT, WEIGHTS, continued, read_marker, read_table, try_out
from encoders.layout import write_modules
from encoders.pooling import pool
from encoders.starts import no_mask_token
from encoders.word_weights import Weighting, weigh

TOKENIZER = "tokenizer.json"  # sentence-transformers' name


class BagOfWords(Encoder):
    """A mean of word vectors.

    A text is split at white space; a word without a vector is not counted.

    Args:
        vectors: file of word vectors (see ``data.vectors``).
        path: a folder that ``save`` wrote, instead of ``vectors``.
        weights: "auto" or "pretrained", which are the same here.
        lowercase: whether words are looked up in lower case; a folder has its own setting.
        weighting: of the words in the mean, "none", "tfidf" or "sif"; a folder has its own setting.
        counts: text file (.gz too) in which words are counted for it, one sentence per line, with words separated
            as in the sentences to encode; None: the sentences of ``texts``.
        sif_a: the constant a of SIF.
        texts: returns the texts in which words are counted if ``counts`` is None.
        texts_key, cache, tokenizer: ignored, as no vocabulary is made from a corpus.
        require_mask_token: must be False, as there is no mask token.
        device: device of the encoder.

    Raises:
        UserError: if there is nothing to open or to count, or a mask token is required.
    """

    reads_order = False
    poolings = ("mean",)

    def __init__(
        self,
        *,
        vectors: Existing | None = None,
        path: Existing | None = None,
        weights: Literal["auto", "pretrained", "random"] = "auto",
        lowercase: bool = False,
        weighting: Weighting = "none",
        counts: Existing | None = None,
        sif_a: Positive = 1e-3,
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if weights == "random":
            raise UserError("word vectors are read from a file", key="encoder.weights=random")
        if require_mask_token:
            raise no_mask_token("bag_of_words")
        if path is not None:
            table = self._open(Path(path).expanduser())
        elif vectors is not None:
            read = WordVectors(Path(vectors).expanduser())
            table = read.vectors
            backend = word_tokenizer(read.words, lowercase)
            self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=NO_LIMIT)
            self.weights = "pretrained"
            self.origin = f"word vectors of {vectors}, {len(table):,} x {table.shape[1]}"
            if weighting != "none":
                number = weigh(table, backend, _sentences(counts, texts, weighting), weighting, sif_a)
                of = "the corpus" if counts is None else counts
                how = f"sif (a = {sif_a:g})" if weighting == "sif" else weighting
                self.origin += f", weighted by {how} from {number:,} sentences of {of}"
        else:
            raise UserError("must be a file of word vectors", key="encoder.vectors")
        self.embedding = nn.Embedding.from_pretrained(table, freeze=False)
        self.dimension = self.state_dimension = table.shape[1]
        self.format = TokenFormat((), (), 0, None, len(table), NO_LIMIT, frozenset())
        self.eval()
        if path is not None:
            with reading("bag of words", path):
                try_out(self)
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        states = self.embedding(tokens.ids)  # (B, T, D)
        return Encoding(states, tokens.mask, pool(states, tokens.mask, "mean"))

    def forward_flops(self, tokens: int, length: float) -> float:
        """Counts one addition per component and token."""
        return float(tokens * self.dimension)

    def write_files(self, folder: Path) -> dict[str, Any]:
        save_file({"embedding.weight": self.embedding.weight.detach().cpu()}, folder / WEIGHTS)
        self.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
        write_modules(folder, [("", "StaticEmbedding")])
        return {}

    def _open(self, folder: Path) -> Tensor:
        """Reads a folder that ``save`` wrote; returns its word vectors, and sets the rest."""
        with reading("bag of words", folder):
            marker = read_marker(folder)
            self.tokenizer = PreTrainedTokenizerFast(
                tokenizer_file=str(folder / TOKENIZER), model_max_length=NO_LIMIT
            )
            self.weights, self.origin = marker["weights"], continued(folder, marker)
            return read_table(folder, "embedding.weight", self.tokenizer)


def _sentences(
    counts: str | None, texts: Callable[[], Iterable[str]] | None, weighting: Weighting
) -> Iterator[str]:
    """Returns the sentences to count words in: the lines of a file, or ``texts`` split into sentences."""
    if counts is not None:
        return (line for _, line in lines(Path(counts).expanduser()) if line.strip())
    if texts is None:
        raise UserError(f"not set, and weighting={weighting} needs a text", key="encoder.counts")
    split, separate = splitter(texts), word_separator()
    return (separate(sentence) for text in texts() for sentence in split(text))


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
