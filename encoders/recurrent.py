"""Base of the recurrent encoders: word vectors, recurrent layers over packed sequences, pooling, an MLM head.

    x_t = v(w_t)        h = RNN(x_1 .. x_n)        logits(h_t) = LayerNorm(GELU(W h_t + b)) V^T + c

The rows of V are the word vectors v (Press and Wolf 2017); the MLM head is RoBERTa's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from data.batch import Tokens, to_device
from data.errors import UserError, reading
from data.files import write_json
from data.ranges import Below1, Count, Existing, Width
from data.tokenizer import END, START, Recipe, Words, load_tokenizer, train_words
from data.vectors import WordVectors
from encoders.api import Encoding
from encoders.base import Encoder, token_format
from encoders.packed import packing, recurrent, without_bf16_autocast
from encoders.pooling import pool
from encoders.saving import (
    HEAD,
    NO_LIMIT,
    WEIGHTS,
    class_name,
    read_marker,
    read_weights,
    write_modules,
    write_pooling,
)

WORDS, NETWORK = "emb_layer.weight", "encoder."  # sentence-transformers' names


class Shape(NamedTuple):
    """Sizes of a recurrent encoder.

    Attributes:
        hidden: units of a state, per direction.
        layers: number of stacked layers.
        word_size: E, of a word vector.
        bidirectional: whether each layer reads in both directions.
    """

    hidden: int
    layers: int
    word_size: int
    bidirectional: bool

    @property
    def state(self) -> int:
        """H, of the states of all directions together."""
        return self.hidden * (1 + self.bidirectional)

    def __str__(self) -> str:
        return f"{self.layers} layers x {self.state}, word vectors of {self.word_size}"


class Recurrent(Encoder):
    """Base of the encoders that run recurrent layers over word vectors.

    A subclass sets the attributes below. Weights are initialised as torch does it and as in the programs of
    InferSent and of Conneau et al. (2018): layers uniform within 1 / sqrt(hidden), word vectors (which those
    programs read from a file) standard normal. They are drawn from torch's global generator.

    Args:
        hidden: units of a state, per direction.
        layers: stacked layers; the topmost gives the sentence vector.
        word_size: E, of a word vector; a file of ``vectors`` has its own.
        vocab_size: most words of a vocabulary that is trained, five special tokens included.
        min_count: occurrences that a word needs to be in it.
        lowercase: whether the vocabulary is of lower-cased words.
        vectors: file of initial word vectors (see ``data.vectors``): a word's own, else that of its lower case;
            words without one are initialised at random, at the same scale.
        train_vectors: whether word vectors change in training.
        dropout: of the states between layers and, with ``drops_words``, of word vectors (Zaremba et al. 2014).
        weights: "auto" (random unless ``path``), "random" or "pretrained" (``path`` must be given).
        path: a folder that ``save`` wrote; its sizes, words and weights are used.
        max_length: most words of an input, special tokens included; the rest is cut. None: no limit, or the
            folder's.
        tokenizer: of a randomly initialised encoder.

    The published sizes are in the YAML of each encoder. The encoder starts in eval mode.

    Attributes:
        cell: class of its layers.
        network: folder of the layers' weights in an encoder's folder.
        poolings: the encoder's own pooling first; the others are for evaluating a trained encoder
            (``encoders.load``).
        template: marks around a sentence, "$A".
        bidirectional: whether each layer reads in both directions.
        drops_words: whether dropout is applied to word vectors, too.
        word_range: initial word vectors are uniform within +- this; None: standard normal.

    Raises:
        UserError: if two arguments contradict each other, or a file cannot be opened.
    """

    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    network: ClassVar[str]
    template: ClassVar[str] = "$A"
    bidirectional: bool = False
    drops_words: ClassVar[bool] = True
    word_range: ClassVar[float | None] = None

    def __init__(
        self,
        *,
        hidden: Width = 512,
        layers: Annotated[int, Field(ge=1, le=1000)] = 1,
        word_size: Width = 300,
        vocab_size: Words = 50_000,
        min_count: Count = 2,
        lowercase: bool = False,
        vectors: Existing | None = None,
        train_vectors: bool = True,
        dropout: Below1 = 0.0,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        path: Existing | None = None,
        max_length: Annotated[int, Field(ge=1, le=NO_LIMIT)] | None = None,
        tokenizer: PreTrainedTokenizerFast | None = None,
    ) -> None:
        super().__init__()
        self.untrained = self.tokenizer_recipe(weights=weights, path=path) is not None
        self.pooling = self.poolings[0]
        self.head: WordHead | None = None
        self.dropout = nn.Dropout(dropout)
        with reading(type(self).__name__, path or "tokenizer"):
            if path is not None:
                self._open(Path(path).expanduser())
            else:
                assert tokenizer is not None, "random weights need a tokenizer"
                self.tokenizer = tokenizer
                self._draw(Shape(hidden, layers, word_size, self.bidirectional), vectors)
            if self.template != "$A":
                self.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                    single=self.template, special_tokens=[("<s>", START), ("</s>", END)]
                )
            self.format = token_format(
                self.tokenizer, max_length or min(self.tokenizer.model_max_length, NO_LIMIT)
            )
        self.embedding.weight.requires_grad_(train_vectors)
        self.dimension = self.state_dimension = self.shape.state
        self.eval()

    @classmethod
    def tokenizer_recipe(
        cls,
        *,
        weights: str = "auto",
        path: str | None = None,
        vocab_size: int = 50_000,
        min_count: int = 2,
        lowercase: bool = False,
        **settings: Any,
    ) -> Recipe | None:
        if weights == ("pretrained" if path is None else "random"):
            raise UserError(f"does not fit weights={weights}", key="encoder.path")
        if path is not None:
            return None
        return train_words, {"vocab_size": vocab_size, "min_count": min_count, "lowercase": lowercase}

    def forward(self, tokens: Tokens) -> Encoding:
        """Computes states and vectors; padding is never computed, and an empty sequence is all zeros."""
        rows, width = tokens.ids.shape
        places, running = packing(tokens.lengths, width)
        places = to_device(places, tokens.ids.device)
        data = self.embedding(tokens.ids.flatten()[places])  # (N, E)
        for number, layer in enumerate(self.layers):
            # Not the layers' own dropout: cuDNN keeps a random state of its own, so that a recomputed pass
            # (gradient caching, a resumed run) would use another mask.
            data = self.dropout(data) if number or self.drops_words else data
            assert isinstance(layer, nn.RNNBase)
            with without_bf16_autocast(data):
                data = recurrent(layer, data, running)  # (N, H)
        states = data.new_zeros(rows * width, data.shape[1]).index_copy_(0, places, data)
        states = states.unflatten(0, (rows, width))  # (B, T, H)
        sentence = pool(states, tokens.mask, self.pooling)
        if self.pooling == "last" and self.shape.bidirectional:  # read backwards, the first word comes last
            hidden = self.shape.hidden
            sentence = torch.cat([states[:, 0, hidden:], sentence[:, :hidden]], dim=1)
        return Encoding(states, tokens.mask, sentence)

    def settings(self) -> dict[str, Any]:
        return {"pooling": self.pooling}

    @property
    def has_mlm_head(self) -> bool:
        return self.head is not None

    def token_logits(self, states: Tensor) -> Tensor:
        """Computes scores over the vocabulary, of shape (M, V), for M states of shape (M, H).

        Raises:
            ValueError: if there is no MLM head (see ``add_mlm_head``).
        """
        if self.head is None:
            return super().token_logits(states)
        return self.head(states, self.embedding.weight)

    def add_mlm_head(self) -> None:
        """Adds an MLM head, randomly initialised and tied to the word vectors."""
        if self.head is None:
            table = self.embedding.weight
            self.head = WordHead(self.shape.state, table.detach()).to(table.device).train(self.training)

    def write_files(self, folder: Path) -> dict[str, Any]:
        layers = {
            stored_name(number, name): weight
            for number, layer in enumerate(self.layers)
            for name, weight in layer.state_dict().items()
        }
        self.tokenizer.save_pretrained(folder)
        save_file({WORDS: self.embedding.weight}, folder / WEIGHTS)
        (folder / self.network).mkdir()
        save_file(layers, folder / self.network / WEIGHTS)
        if self.head is not None:
            save_file(self.head.state_dict(), folder / HEAD)
        if self.opens_elsewhere:
            self._write_modules(folder)
        return {"shape": self.shape._asdict(), **self.settings()}

    def _write_modules(self, folder: Path) -> None:
        """Writes sentence-transformers' files of an LSTM over word vectors whose states are pooled."""
        write_modules(folder, [("", "WordEmbeddings"), (self.network, "LSTM"), ("2_Pooling", "Pooling")])
        words = {
            "tokenizer_class": "sentence_transformers.models.tokenizer.TransformersTokenizerWrapper",
            "update_embeddings": self.embedding.weight.requires_grad,
            "max_seq_length": self.format.max_length,
        }
        write_json(folder / "wordembedding_config.json", words)
        layers = {
            "word_embedding_dimension": self.shape.word_size,
            "hidden_dim": self.shape.hidden,
            "num_layers": self.shape.layers,
            "dropout": self.dropout.p if self.shape.layers > 1 else 0,
            "bidirectional": self.shape.bidirectional,
        }
        write_json(folder / self.network / "lstm_config.json", layers)
        write_pooling(folder / "2_Pooling", self.pooling, self.dimension)

    def _draw(self, shape: Shape, vectors: str | None) -> None:
        """Initialises all weights but the head's; words that ``vectors`` has get their vectors from it."""
        file = None if vectors is None else WordVectors(vectors)
        shape = shape if file is None else shape._replace(word_size=file.dim)
        self.embedding = nn.Embedding(len(self.tokenizer), shape.word_size)
        self._build(shape)
        self.weights = "random"
        self.origin = f"random {type(self).__name__}, {shape}"
        if file is not None:
            known = copy_known(file, self.tokenizer, self.embedding.weight.data)
            self.origin += f", {known:,} of them from {vectors}"
        elif self.word_range is not None:
            nn.init.uniform_(self.embedding.weight, -self.word_range, self.word_range)

    def _open(self, folder: Path) -> None:
        """Reads everything from a folder that ``save`` wrote."""
        marker = read_marker(folder)
        assert marker["class"] == class_name(type(self)), marker["class"]
        self.weights, self.origin = marker["weights"], marker["origin"]
        self.tokenizer = load_tokenizer(folder)
        self.embedding = nn.Embedding.from_pretrained(read_weights(folder / WEIGHTS)[WORDS])
        self._build(Shape(**marker["shape"]))
        saved = read_weights(folder / self.network / WEIGHTS)
        for number, layer in enumerate(self.layers):
            layer.load_state_dict({name: saved[stored_name(number, name)] for name in layer.state_dict()})
        if (folder / HEAD).is_file():
            self.head = WordHead(self.shape.state, self.embedding.weight)
            self.head.load_state_dict(read_weights(folder / HEAD))
        self.pool_by(marker["pooling"])

    def _build(self, shape: Shape) -> None:
        self.shape = shape
        widths = [shape.word_size, *[shape.state] * (shape.layers - 1)]
        self.layers = nn.ModuleList(
            self.cell(width, shape.hidden, bidirectional=shape.bidirectional) for width in widths
        )
        for layer in self.layers:
            layer.register_state_dict_post_hook(_unshare_memory)


class WordHead(nn.Module):
    """Maps states to scores over the words; see the module's equation.

    Args:
        state_dimension: H.
        table: the word vectors, of shape (V, E). LayerNorm's gain is initialised to one over their root mean
            square length, so that initial scores are of order 1 for any file of vectors.
    """

    def __init__(self, state_dimension: int, table: Tensor) -> None:
        super().__init__()
        self.dense = nn.Linear(state_dimension, table.shape[1])
        self.norm = nn.LayerNorm(table.shape[1])
        self.bias = nn.Parameter(torch.zeros(len(table)))
        nn.init.constant_(self.norm.weight, len(table) ** 0.5 / float(torch.linalg.vector_norm(table)))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """Computes scores of shape (M, V) for ``states`` of shape (M, H) and word vectors ``table`` (V, E)."""
        return F.linear(self.norm(F.gelu(self.dense(states))), table, self.bias)


def copy_known(file: WordVectors, tokenizer: Any, table: Tensor) -> int:
    """Copies the vectors of words that ``file`` has into ``table``, of shape (V, E); returns their number.

    A word is looked up in its own form, then in lower case. All others, special tokens included, keep their random
    vectors, scaled to those of the file.
    """
    special = set(tokenizer.all_special_tokens)
    known = {
        place: row
        for word, place in tokenizer.get_vocab().items()
        if word not in special and (row := file.stoi.get(word, file.stoi.get(word.lower()))) is not None
    }
    table *= torch.linalg.vector_norm(file.vectors) / file.vectors.numel() ** 0.5
    table[list(known)] = file.vectors[list(known.values())]
    return len(known)


def _unshare_memory(layer: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    """Copies each of a layer's weights in ``state`` into memory of its own.

    cuDNN keeps all weights in one buffer, and safetensors refuses to write views of a shared buffer.
    """
    for name, weight in state.items():
        if name.startswith(prefix) and weight.untyped_storage().nbytes() > weight.nbytes:
            state[name] = weight.clone()


def stored_name(number: int, name: str) -> str:
    """Returns sentence-transformers' name of a weight in layer ``number``, from torch's for a single layer."""
    return NETWORK + name.replace("_l0", f"_l{number}")
