"""The mean of a sentence's word vectors, over the words that have one; nothing else, but trainable.

    sentence = (1 / n) sum_i v(w_i)        (n known words; zeros where n = 0)

SentEval (Conneau and Kiela 2018), ``examples/bow.py``. Weighted means: ``encoders.word_weights``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from data.batch import Tokens
from data.errors import UnfitError
from data.files import write_json
from data.ranges import Positive
from data.sentences import splitter
from data.sources.reading import lines
from data.token_format import TokenFormat
from data.vectors import WordVectors
from data.vocabulary import parting
from encoders.base import NO_LIMIT, Encoder, Encoding
from encoders.export import model_card
from encoders.folder import (
    MARKER,
    WEIGHTS,
    check_vocabulary,
    hidden_panics,
    read_marker,
    read_table,
    readable,
    try_out,
)
from encoders.layout import atomic_folder, write_modules
from encoders.pooling import pool
from encoders.word_weights import Weighting, weigh

TOKENIZER = "tokenizer.json"  # sentence-transformers' name


class BagOfWords(Encoder):
    """A mean of word vectors.

    A text is parted at white space; a word without a vector is not counted.

    Args:
        vectors: file of word vectors (see ``data.vectors``).
        path: a folder that ``save`` wrote, taken instead of ``vectors``.
        weights: "auto" or "pretrained", which are the same here.
        lowercase: whether words are looked up in lower case; a folder keeps its own way.
        weighting: of the words in the mean, "none", "tfidf" or "sif"; a folder keeps its own way.
        counts: text file to count words in for it, a sentence a line, its words parted as those of the sentences
            to encode are (.gz too); None: the sentences of ``texts``.
        sif_a: a of SIF.
        texts: makes the texts that words are counted in where ``counts`` is None.
        texts_key, cache, tokenizer: of encoders that make their vocabulary from a corpus; not used.
        require_mask_token: refuse, as there is none.
        device: where to put it.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if there is nothing to open or to count, or a mask token is required.
    """

    reads_order = False
    poolings = ("mean",)

    def __init__(
        self,
        *,
        vectors: str | None = None,
        path: str | None = None,
        weights: Literal["auto", "pretrained", "random"] = "auto",
        lowercase: bool = False,
        weighting: Weighting = "none",
        counts: str | None = None,
        sif_a: Positive = 1e-3,
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if weights not in ("auto", "pretrained"):
            raise ValueError(
                f"encoder.weights must be auto or pretrained for word vectors. Got {weights} instead."
            )
        if require_mask_token:
            raise UnfitError(
                "The objective predicts masked words, and bag_of_words has no mask token: choose another encoder, "
                "or train without them (objective.mlm_weight=0, if there is another loss)"
                + ("." if vectors or path else ", and with encoder.vectors=<file of word vectors>.")
            )
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
            raise ValueError("encoder.vectors must be a file of word vectors. Got nothing instead.")
        self.embedding = nn.Embedding.from_pretrained(table, freeze=False)
        self.dimension = self.state_dimension = table.shape[1]
        self.format = TokenFormat((), (), 0, None, len(table), NO_LIMIT, frozenset())
        self.eval()
        if path is not None:
            try_out(self, path)
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        states = self.embedding(tokens.ids)  # (B, T, D)
        return Encoding(states, tokens.mask, pool(states, tokens.mask, "mean"))

    @property
    def has_mlm_head(self) -> bool:
        return False

    def token_logits(self, states: Tensor) -> Tensor:
        """There is no MLM head.

        Raises:
            ValueError: always.
        """
        raise ValueError("A bag of words has no MLM head.")

    def forward_flops(self, tokens: int, length: float) -> float:
        """One addition a component and token."""
        return float(tokens * self.dimension)

    def head_flops(self, tokens: int) -> float:
        return 0.0

    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` and sentence-transformers (as a StaticEmbedding) open.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's.
        """
        folder = Path(folder)
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        marker = {
            "class": f"{type(self).__module__}.{type(self).__name__}",
            "weights": self.weights,
            "origin": self.origin,
        }
        with atomic_folder(folder) as unfinished:
            save_file({"embedding.weight": self.embedding.weight.detach().cpu()}, unfinished / WEIGHTS)
            backend.save(str(unfinished / TOKENIZER))
            write_modules(unfinished, [("", "StaticEmbedding")])
            write_json(unfinished / MARKER, marker)
            (unfinished / "README.md").write_text(
                card or model_card(title=folder.name, encoder=self), encoding="utf-8"
            )

    @classmethod
    def load(cls, folder: Path | str) -> BagOfWords:
        """Opens what ``save`` wrote."""
        return cls(path=str(folder))

    def _open(self, folder: Path) -> Tensor:
        """The word vectors of what ``save`` wrote into ``folder``; sets what else is there."""
        with readable(folder, "a bag of words"):
            marker = read_marker(folder)
            with hidden_panics():
                self.tokenizer = PreTrainedTokenizerFast(
                    tokenizer_file=str(folder / TOKENIZER), model_max_length=NO_LIMIT
                )
            self.weights = marker["weights"]
            self.origin = f"continued from {folder}; before that: {marker['origin']}"
            table = read_table(folder, "embedding.weight", self.tokenizer)
            check_vocabulary(folder, self.tokenizer, len(table))
        return table


def _sentences(
    counts: str | None, texts: Callable[[], Iterable[str]] | None, weighting: Weighting
) -> Iterator[str]:
    """The text to count words in: the lines of a file, or the sentences of ``texts``, which may be raw prose."""
    if counts is not None:
        return (line for _, line in lines(Path(counts).expanduser()) if line.strip())
    if texts is None:
        raise ValueError(
            f"encoder.counts must be a text file to count words in where encoder.weighting={weighting}. "
            "Got nothing instead."
        )
    split, part = splitter(texts), parting()
    return (part(sentence) for text in texts() for sentence in split(text))


def word_tokenizer(words: Sequence[str], lowercase: bool) -> Tokenizer:
    """A tokenizer of whole words, parted at white space, that leaves out those it does not know.

    It is a BPE without merges: tokenizers' own model of whole words, WordLevel, must put an unknown token in their
    place, which others who open the folder would count in the mean. The blank before each word keeps the
    letters of an unknown word from being taken for the words "a" or "I".
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
