"""Base of the recurrent encoders: word vectors, recurrent layers over packed sequences, pooling, an MLM head.

    x_t = v(w_t)        h = RNN(x_1 .. x_n)        logits(h_t) = LayerNorm(GELU(W h_t + b)) V^T + c

The rows of V are the word vectors v (Press and Wolf 2017); the MLM head is RoBERTa's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Tokens, to_device
from data.errors import UserError, reading
from data.ranges import Below1, Count, Existing, Width
from data.tokenizer import Words, load_tokenizer
from data.vectors import WordVectors
from data.vocabulary import corpus_vocabulary
from encoders import folder as folders
from encoders import starts
from encoders.base import Encoder, Encoding
from encoders.folder import HEAD, NO_LIMIT
from encoders.layout import write_lstm
from encoders.packed import packing, recurrent, without_bf16_autocast
from encoders.pooling import pool

WORDS, NETWORK = "emb_layer.weight", "encoder."  # sentence-transformers' names

Layers = Annotated[int, Field(ge=1, le=1000)]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a recurrent encoder.

    Attributes:
        hidden: of a state, per direction.
        layers: number of stacked layers.
        word_size: E, of a word vector.
        bidirectional: whether each layer reads in both directions.
    """

    hidden: Annotated[int, Field(ge=1, le=2**31)]
    layers: Layers
    word_size: Annotated[int, Field(ge=1, le=2**31)]
    bidirectional: bool

    @property
    def state(self) -> int:
        """H, of the states of all directions together."""
        return self.hidden * (2 if self.bidirectional else 1)

    def __str__(self) -> str:
        layers = f"{self.layers} layer{'s' if self.layers > 1 else ''}"
        return f"{layers} x {'2 x ' if self.bidirectional else ''}{self.hidden}"


@dataclass
class Saved(folders.Marker):
    """Keys of a recurrent encoder's ``encoder.json``."""

    shape: Shape


class Recurrent(Encoder):
    """Base of the encoders that run recurrent layers over word vectors.

    A subclass sets the attributes below. Weights are initialised as torch does it and as in the programs of
    InferSent and of Conneau et al. (2018): layers uniform within 1 / sqrt(hidden), word vectors (which those
    programs read from a file) standard normal. They are drawn from torch's global generator.

    Args:
        hidden: units of a state, per direction.
        layers: stacked layers; the topmost gives the sentence vector.
        word_size: E, of a word vector; a file of ``vectors`` has its own.
        vocab_size: most words of the vocabulary made from ``texts``, five special tokens included.
        min_count: occurrences in ``texts`` that a word needs to be in it.
        lowercase: whether the vocabulary is of lower-cased words.
        vectors: file of initial word vectors (see ``data.vectors``): a word's own, else that of its lower case;
            words without one are initialised at random, at the same scale.
        train_vectors: whether word vectors change in training.
        dropout: of the states between layers and, with ``drops_words``, of word vectors (Zaremba et al. 2014).
        weights: "auto" (random unless ``path``), "random" or "pretrained" (``path`` must be given).
        path: a folder that ``save`` wrote; its sizes, words and weights are used.
        max_length: most words of an input, special tokens included; the rest is cut. None: no limit, or the
            folder's.
        texts: returns the texts whose words become the vocabulary of a randomly initialised encoder.
        texts_key: returns a name for the texts, under which a cached vocabulary is found without reading them.
        cache: folder of cached vocabularies.
        tokenizer: folder of the tokenizer of a randomly initialised encoder, instead of making a vocabulary.
        require_mask_token: whether a randomly initialised encoder gets an MLM head, tied to the word vectors.
        device: device of the encoder.

    The published sizes are in the YAML of each encoder. The encoder starts in eval mode.

    Attributes:
        title: the encoder's name in messages.
        cell: class of its layers.
        network: folder of the layers' weights in an encoder's folder.
        supported_poolings: the encoder's own pooling first; the others are for evaluating a trained encoder
            (``encoders.load``).
        marks: whether "<s>" is put before a sentence, and "</s>" after it.
        bidirectional: whether each layer reads in both directions.
        drops_words: whether dropout is applied to word vectors, too.
        word_range: initial word vectors are uniform within +- this; None: standard normal.

    Raises:
        UserError: if two arguments contradict each other, a file cannot be opened, or ``vectors`` has none of the
            words.
    """

    title: ClassVar[str]
    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    network: ClassVar[str]
    supported_poolings: ClassVar[tuple[str, ...]]
    marks: ClassVar[tuple[bool, bool]] = (False, False)
    bidirectional: bool = False
    drops_words: ClassVar[bool] = True
    word_range: ClassVar[float | None] = None

    def __init__(
        self,
        *,
        hidden: Width = 512,
        layers: Layers = 1,
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
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        starts.check_weights(weights, path)
        if weights == "pretrained" and path is None:
            raise UserError("not set, and weights=pretrained needs it", key="encoder.path")
        least = 1 + sum(self.marks)
        if max_length is not None and max_length < least:
            raise UserError(f"must be at least {least}", key=f"encoder.max_length={max_length}")
        self.pooling = self.supported_poolings[0]
        self.head: WordHead | None = None
        self.dropout = nn.Dropout(dropout)
        if path is not None:
            self._open(Path(path).expanduser())
        else:
            self.tokenizer = starts.random_tokenizer(
                tokenizer,
                texts,
                lambda texts: corpus_vocabulary(
                    texts, vocab_size, min_count, lowercase, NO_LIMIT, cache, texts_key
                ),
            )
            shape = Shape(hidden=hidden, layers=layers, word_size=word_size, bidirectional=self.bidirectional)
            self._draw(shape, vectors)
            if require_mask_token:
                self.add_mlm_head()
        self.embedding.weight.requires_grad_(train_vectors)
        self.untrained = path is None
        self.dimension = self.state_dimension = self.shape.state
        with reading("encoder", path or tokenizer or self.title):
            self._mark()
            most = max_length or min(self.tokenizer.model_max_length, NO_LIMIT)
            self.format = starts.token_format(self.tokenizer, len(self.tokenizer), most)
            self.eval()
            if path is not None:
                folders.try_out(self)
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        """Computes states and vectors; padding is never computed, and an empty sequence is all zeros."""
        rows, width = tokens.ids.shape
        places, running = packing(tokens.lengths, width)
        if len(places) == 0:
            states = self.embedding.weight.new_zeros(rows, width, self.state_dimension)
            return Encoding(states, tokens.mask, states.new_zeros(rows, self.dimension))
        places = to_device(places, tokens.ids.device)
        data = self.embedding(tokens.ids.flatten()[places])  # (N, E)
        for number, layer in enumerate(self.layers):
            # Not the layers' own dropout: cuDNN keeps a random state of its own, so that a recomputed pass
            # (gradient caching, a resumed run) would use another mask.
            data = self.dropout(data) if number or self.drops_words else data
            assert isinstance(layer, nn.RNNBase), "by _build"
            with without_bf16_autocast(data):
                data = recurrent(layer, data, running)  # (N, H)
        states = data.new_zeros(rows * width, data.shape[1]).index_copy_(0, places, data)
        states = states.unflatten(0, (rows, width))  # (B, T, H)
        sentence = self.pool_states(states, tokens.mask)
        if not bool(tokens.lengths.all()):
            sentence = sentence.masked_fill(~tokens.mask.any(dim=1, keepdim=True), 0.0)
        return Encoding(states, tokens.mask, sentence)

    def pool_states(self, states: Tensor, mask: Tensor) -> Tensor:
        """Pools states of shape (B, T, H), which are 0 where ``mask`` is False, to vectors of shape (B, D).

        The last states of both directions are those of the first word, read backwards, and of the last one. The
        vector of an empty row has no meaning.
        """
        vectors = pool(states, mask, self.pooling)
        if self.pooling != "last" or not self.shape.bidirectional:
            return vectors
        hidden = self.shape.hidden
        return torch.cat([states[:, 0, hidden:], vectors[:, :hidden]], dim=1)

    @property
    def poolings(self) -> tuple[str, ...]:
        return self.supported_poolings

    def pool_by(self, pooling: str) -> None:
        super().pool_by(pooling)
        self.pooling = pooling

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
            raise ValueError(f"{self.origin} has no MLM head; add_mlm_head() adds one.")
        return self.head(states, self.embedding.weight)

    def add_mlm_head(self) -> None:
        """Adds an MLM head, randomly initialised and tied to the word vectors."""
        if self.head is None:
            table = self.embedding.weight
            self.head = WordHead(self.shape.state, table.detach()).to(table.device).train(self.training)

    def forward_flops(self, tokens: int, length: float) -> float:
        """Counts 2 per weight of the layers and token; the rest is below one per cent of it."""
        return 2.0 * tokens * sum(weight.numel() for weight in self.layers.parameters() if weight.ndim == 2)

    def head_flops(self, tokens: int) -> float:
        """Counts 2 per weight of the head (with the word vectors) and token; 0 without a head."""
        if self.head is None:
            return 0.0
        return 2.0 * tokens * (self.head.dense.weight.numel() + self.embedding.weight.numel())

    def write_files(self, folder: Path) -> dict[str, Any]:
        layers = {
            _stored_name(number, name): weight.cpu()
            for number, layer in enumerate(self.layers)
            for name, weight in layer.state_dict().items()
        }
        self.tokenizer.save_pretrained(folder)
        save_file({WORDS: self.embedding.weight.detach().cpu()}, folder / folders.WEIGHTS)
        (folder / self.network).mkdir()
        save_file(layers, folder / self.network / folders.WEIGHTS)
        if self.head is not None:
            head = {name: weight.detach().cpu() for name, weight in self.head.state_dict().items()}
            save_file(head, folder / HEAD)
        if self.opens_elsewhere:
            write_lstm(folder, self, self.pooling)
        return {"shape": asdict(self.shape), **self.settings()}

    def _mark(self) -> None:
        """Sets the tokenizer to put the ``marks`` around a sentence."""
        tokens = (self.tokenizer.bos_token, self.tokenizer.eos_token)
        before, after = (token if wanted else "" for token, wanted in zip(tokens, self.marks, strict=True))
        marks = [(mark, self.tokenizer.convert_tokens_to_ids(mark)) for mark in (before, after) if mark]
        if marks:
            self.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{before} $A {after}".strip(), special_tokens=marks
            )

    def _draw(self, shape: Shape, vectors: str | None) -> None:
        """Initialises all weights but the head's; words that ``vectors`` has get their vectors from it."""
        read = None if vectors is None else WordVectors(Path(vectors).expanduser())
        shape = shape if read is None else replace(shape, word_size=read.dim)
        self.embedding = nn.Embedding(len(self.tokenizer), shape.word_size)
        self._build(shape)
        self.weights = "random"
        self.origin = (
            f"random {self.title}, {shape}, vocabulary of {len(self.tokenizer)}, word vectors of {shape.word_size}"
        )
        if read is None:
            if self.word_range is not None:
                nn.init.uniform_(self.embedding.weight, -self.word_range, self.word_range)
        else:
            known, words = _copy_known(read, self.tokenizer, self.embedding.weight.data)
            if known == 0:
                raise UserError(f"{vectors} has none of the {words:,} words of the corpus", key="encoder.vectors")
            self.origin += f" from {vectors} ({known:,} of {words:,} words have a vector)"

    def _open(self, folder: Path) -> None:
        """Reads everything from a folder that ``save`` wrote."""
        with reading(self.title, folder):
            name = folders.read_marker(folder)["class"].rpartition(".")[2]
            if name != type(self).__name__:
                raise UserError(f"holds a {name} and no {self.title}", key=str(folder))
            marker = folders.read_marker(folder, Saved)
            self.tokenizer = load_tokenizer(folder)
            saved = folders.read_weights(folder / self.network / folders.WEIGHTS)
            self.embedding = nn.Embedding.from_pretrained(folders.read_table(folder, WORDS, self.tokenizer))
            self._build(Shape(**marker["shape"]))
            for number, layer in enumerate(self.layers):
                layer.load_state_dict({name: saved.pop(_stored_name(number, name)) for name in layer.state_dict()})
            if saved:
                raise ValueError(f"weights of more layers than shape.layers, {min(saved)}")
            if (folder / HEAD).is_file():
                self.add_mlm_head()
                assert self.head is not None
                self.head.load_state_dict(folders.read_weights(folder / HEAD))
            self.pool_by(marker.get("pooling", self.supported_poolings[0]))
            self.weights, self.origin = marker["weights"], folders.continued(folder, marker)

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


def _copy_known(read: WordVectors, tokenizer: Any, table: Tensor) -> tuple[int, int]:
    """Puts the vectors of known words into ``table`` (V, E); returns the numbers of known and of all words.

    A word is looked up in its own form, then in lower case. All others, special tokens included, keep their random
    vectors, scaled to those of the file.
    """
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = set(tokenizer.all_special_ids)
    known = {
        place: row
        for place, word in enumerate(words)
        if place not in special and (row := read.stoi.get(word, read.stoi.get(word.lower()))) is not None
    }
    table *= torch.linalg.vector_norm(read.vectors) / read.vectors.numel() ** 0.5
    table[list(known)] = read.vectors[list(known.values())]
    return len(known), len(words) - len(special)


def _unshare_memory(layer: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    """Copies each of a layer's weights in ``state`` into memory of its own.

    cuDNN keeps all weights in one buffer, and safetensors refuses to write views of a shared buffer.
    """
    for name, weight in state.items():
        if name.startswith(prefix) and weight.untyped_storage().nbytes() > weight.nbytes:
            state[name] = weight.clone()


def _stored_name(number: int, name: str) -> str:
    """Returns sentence-transformers' name of a weight in layer ``number``, from torch's for a single layer."""
    return NETWORK + name.replace("_l0", f"_l{number}")
