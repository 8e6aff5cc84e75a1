"""What recurrent encoders share: words, their vectors, layers over packed sequences, an MLM head, a folder.

    x_t = v(w_t)        h = RNN(x_1 .. x_n)        logits(h_t) = LayerNorm(GELU(W h_t + b)) V^T + c

The rows of V are the word vectors v (Press and Wolf 2017); between states and words stands RoBERTa's head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Tokens, to_device
from data.errors import UserError
from data.files import write_json
from data.token_format import TokenFormat, separator
from data.vectors import WordVectors
from encoders import folder as folders
from encoders import random_start
from encoders.base import NO_LIMIT, Encoder, Encoding
from encoders.export import model_card
from encoders.layout import atomic_folder
from encoders.packed import in_own_type, packing, recurrent
from encoders.pooling import pool

HEAD = "mlm_head.safetensors"
WORDS, NETWORK = "emb_layer.weight", "encoder."  # sentence-transformers' names

Layers = Annotated[int, Field(ge=1, le=folders.MOST_COUNT)]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a recurrent encoder.

    Attributes:
        hidden: of a state, per direction.
        layers: one above the other.
        word_size: E, of a word vector.
        bidirectional: whether each layer reads in both directions.
    """

    hidden: Annotated[int, Field(ge=1, le=2**31)]
    layers: Annotated[int, Field(ge=1, le=folders.MOST_COUNT)]
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
    """Base of the encoders that read word vectors one after the other; ``LSTM`` says what this one takes.

    A subclass names itself, its cell, the folder of its layers and its poolings, and says whether word vectors are
    dropped out as the states between layers are.

    The start is torch's own, as in the programs of InferSent and of Conneau et al. (2018): layers uniform within
    1 / sqrt(hidden), word vectors (which those programs read from a file) standard normal.
    """

    title: ClassVar[str]  # the encoder's name in what is printed
    cell: ClassVar[type[nn.LSTM] | type[nn.GRU]]
    network: ClassVar[str]  # folder of the layers' weights in an encoder's folder
    ways: ClassVar[tuple[str, ...]]  # the poolings there are, the encoder's own first
    drops_words: ClassVar[bool] = True

    def __init__(
        self,
        shape: Shape,
        *,
        vocab_size: int,
        min_count: int,
        lowercase: bool,
        vectors: str | None,
        train_vectors: bool,
        dropout: float,
        weights: Literal["auto", "random", "pretrained"],
        path: str | None,
        max_length: int | None,
        texts: Callable[[], Iterable[str]] | None,
        texts_key: Callable[[], str] | None,
        cache: Path | None,
        tokenizer: Path | None,
        require_mask_token: bool,
        device: torch.device | str | None,
    ) -> None:
        super().__init__()
        _check(weights, path)
        self.coverage: str | None = None
        self.pooling = self.ways[0]
        self.head: WordHead | None = None
        self.dropout = nn.Dropout(dropout)
        if path is not None:
            self._open(Path(path).expanduser())
        else:
            if tokenizer is not None:
                self.tokenizer = random_start.kept_tokenizer(tokenizer)
            elif texts is not None:
                self.tokenizer = random_start.corpus_vocabulary(
                    texts, vocab_size, min_count, lowercase, NO_LIMIT, cache, texts_key
                )
            else:
                raise UserError("A random start takes its words from a corpus, and none is given.")
            with folders.fitting():
                self._start(shape, vectors)
            if require_mask_token:
                self.add_mlm_head()
        self.embedding.weight.requires_grad_(train_vectors)
        self.untrained = path is None
        self.dimension = self.state_dimension = self.shape.state
        with folders.readable(path or tokenizer or self.title):
            prefix, suffix = self._marks()
            self.format = TokenFormat(
                prefix=prefix,
                suffix=suffix,
                pad_id=self.tokenizer.pad_token_id,
                mask_id=self.tokenizer.mask_token_id,
                vocab_size=len(self.tokenizer),
                max_length=max_length or min(self.tokenizer.model_max_length, NO_LIMIT),
                special_ids=frozenset(self.tokenizer.all_special_ids),
                middle=separator(self.tokenizer),
            )
        self.tokenizer.model_max_length = self.format.max_length
        self.eval()
        if path is not None:
            folders.try_out(self, path)
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        """States and vectors; padded positions are never computed, and an empty sequence is all zeros."""
        rows, width = tokens.ids.shape
        places, running = packing(tokens.lengths, width)
        if len(places) == 0:
            states = self.embedding.weight.new_zeros(rows, width, self.state_dimension)
            return Encoding(states, tokens.mask, states.new_zeros(rows, self.dimension))
        places = to_device(places, tokens.ids.device)
        data = self.embedding(tokens.ids.flatten()[places])  # (N, E)
        for number, layer in enumerate(self.layers):
            # Dropout is here and not in the layers, as cuDNN's has a random state of its own: what is computed
            # again (gradient caching, a resumed run) would meet another mask.
            data = self.dropout(data) if number or self.drops_words else data
            assert isinstance(layer, nn.RNNBase), "by _build"
            with in_own_type(data):
                data = recurrent(layer, data, running)  # (N, H)
        states = data.new_zeros(rows * width, data.shape[1]).index_copy_(0, places, data)
        states = states.unflatten(0, (rows, width))  # (B, T, H)
        sentence = self.summary(states, tokens.mask)
        if not bool(tokens.lengths.all()):
            sentence = sentence.masked_fill(~tokens.mask.any(dim=1, keepdim=True), 0.0)
        return Encoding(states, tokens.mask, sentence)

    def summary(self, states: Tensor, mask: Tensor) -> Tensor:
        """Vectors of shape (B, D) from states of shape (B, T, H), which are zero where ``mask`` is False.

        Of a row without any token it may give what it likes.
        """
        return pool(states, mask, self.pooling)

    @property
    def poolings(self) -> tuple[str, ...]:
        return self.ways

    def pool_by(self, pooling: str) -> None:
        super().pool_by(pooling)
        self.pooling = pooling

    def settings(self) -> dict[str, Any]:
        return {"pooling": self.pooling}

    @property
    def has_mlm_head(self) -> bool:
        return self.head is not None

    def token_logits(self, states: Tensor) -> Tensor:
        """Scores over the vocabulary, of shape (M, V), for M states of shape (M, H).

        Raises:
            ValueError: if there is no MLM head (see ``add_mlm_head``).
        """
        if self.head is None:
            raise ValueError(f"{self.origin} has no MLM head; add_mlm_head() makes one.")
        return self.head(states, self.embedding.weight)

    def add_mlm_head(self) -> None:
        """Gives the encoder an MLM head, randomly initialised and tied to the word vectors."""
        if self.head is None:
            table = self.embedding.weight
            self.head = WordHead(self.shape.state, table.detach()).to(table.device).train(self.training)

    def forward_flops(self, tokens: int, length: float) -> float:
        """2 a weight of the layers and token; the rest is below a hundredth of it."""
        return 2.0 * tokens * sum(weight.numel() for weight in self.layers.parameters() if weight.ndim == 2)

    def head_flops(self, tokens: int) -> float:
        """2 a weight of the head, the word vectors among them, and token; 0 without a head."""
        if self.head is None:
            return 0.0
        return 2.0 * tokens * (self.head.dense.weight.numel() + self.embedding.weight.numel())

    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` opens, and sentence-transformers where it has such layers.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's.
        """
        folder = Path(folder)
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        marker = {
            "class": f"{type(self).__module__}.{type(self).__name__}",
            "shape": asdict(self.shape),
            "weights": self.weights,
            "origin": self.origin,
            **self.settings(),
        }
        layers = {
            _stacked(number, name): weight.cpu()
            for number, layer in enumerate(self.layers)
            for name, weight in layer.state_dict().items()
        }
        with atomic_folder(folder) as unfinished:
            self.tokenizer.save_pretrained(unfinished)
            save_file({WORDS: self.embedding.weight.detach().cpu()}, unfinished / folders.WEIGHTS)
            (unfinished / self.network).mkdir()
            save_file(layers, unfinished / self.network / folders.WEIGHTS)
            if self.head is not None:
                head = {name: weight.detach().cpu() for name, weight in self.head.state_dict().items()}
                save_file(head, unfinished / HEAD)
            self._write_modules(unfinished)
            write_json(unfinished / folders.MARKER, marker)
            (unfinished / "README.md").write_text(
                card or model_card(title=folder.name, encoder=self), encoding="utf-8"
            )

    def _marks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids of what stands before and after a sentence, where ``tokenizer`` has been made to put it."""
        return (), ()

    def _restore(self, marker: Mapping[str, Any]) -> None:
        """Takes the ``settings`` that ``save`` wrote."""
        self.pool_by(marker.get("pooling", self.ways[0]))

    def _write_modules(self, folder: Path) -> None:
        """Writes what sentence-transformers needs beside the weights, where it has such layers."""

    def _start(self, shape: Shape, vectors: str | None) -> None:
        """Draws all weights but the head's; those of the words that ``vectors`` has come from there."""
        read = None if vectors is None else WordVectors(Path(vectors).expanduser())
        shape = shape if read is None else replace(shape, word_size=read.dim)
        self.embedding = nn.Embedding(len(self.tokenizer), shape.word_size)
        self._build(shape)
        self.weights = "random"
        self.origin = (
            f"random {self.title}, {shape}, vocabulary of {len(self.tokenizer)}, word vectors of {shape.word_size}"
        )
        if read is not None:
            known, words = _copy_known(read, self.tokenizer, self.embedding.weight.data)
            if known == 0:
                raise UserError(f"{vectors} has none of the {words:,} words: take one in the corpus' language.")
            self.coverage = f"{known:,} of {words:,} words have a vector"
            self.origin += f" from {vectors} ({self.coverage})"

    def _open(self, folder: Path) -> None:
        """Takes everything from what ``save`` wrote into ``folder``."""
        with folders.readable(folder, f"a {self.title}"):
            name = folders.read_marker(folder)["class"].rpartition(".")[2]
            if name != type(self).__name__:
                raise UserError(f"{folder} holds a {name} and no {self.title}.")
            marker = folders.read_marker(folder, Saved)
            self.tokenizer = random_start.kept_tokenizer(folder)
            saved = folders.read_weights(folder / self.network / folders.WEIGHTS)
            table = folders.read_table(folder, WORDS, self.tokenizer)
            self.embedding = nn.Embedding.from_pretrained(table)
            with folders.by_weights([weight.shape for weight in saved.values()], folder):
                self._build(Shape(**marker["shape"]))
            for number, layer in enumerate(self.layers):
                names = {_stacked(number, name): name for name in layer.state_dict()}
                own = {name: saved.pop(stored) for stored, name in names.items() if stored in saved}
                folders.fill(layer, own, folder)
            if saved:
                raise UserError(f"{folder} has weights of more layers than shape.layers ({min(saved)}).")
            if (folder / HEAD).is_file():
                self.add_mlm_head()
                assert self.head is not None
                folders.fill(self.head, folders.read_weights(folder / HEAD), folder / HEAD)
            self._restore(marker)
            self.weights = marker["weights"]
            self.origin = f"continued from {folder}; before that: {marker['origin']}"

    def _build(self, shape: Shape) -> None:
        self.shape = shape
        widths = [shape.word_size, *[shape.state] * (shape.layers - 1)]
        self.layers = nn.ModuleList(
            self.cell(width, shape.hidden, bidirectional=shape.bidirectional) for width in widths
        )
        for layer in self.layers:
            layer.register_state_dict_post_hook(_apart)


class WordHead(nn.Module):
    """From states to scores over the words; see the module's equation.

    Args:
        state_dimension: H.
        table: the word vectors, of shape (V, E). LayerNorm's gain begins at one over their usual length, so that
            first scores are of order 1, whatever file the vectors come from.
    """

    def __init__(self, state_dimension: int, table: Tensor) -> None:
        super().__init__()
        self.dense = nn.Linear(state_dimension, table.shape[1])
        self.norm = nn.LayerNorm(table.shape[1])
        self.bias = nn.Parameter(torch.zeros(len(table)))
        nn.init.constant_(self.norm.weight, len(table) ** 0.5 / float(torch.linalg.vector_norm(table)))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(states))), table, self.bias)


def _copy_known(read: WordVectors, tokenizer: Any, table: Tensor) -> tuple[int, int]:
    """Puts the vectors of known words into ``table`` (V, E); how many they are, of how many.

    A word's own form counts first, then its lower case. The others, special tokens among them, keep their random
    directions and get the file's scale.
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


def _apart(layer: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    """Gives each of a layer's weights in ``state`` memory of its own: cuDNN keeps them all in one buffer.

    safetensors, in which checkpoints are written, refuses parts of a buffer.
    """
    for name, weight in state.items():
        if name.startswith(prefix) and weight.untyped_storage().nbytes() > weight.nbytes:
            state[name] = weight.clone()


def _stacked(number: int, name: str) -> str:
    """sentence-transformers' name of a weight in layer ``number``; torch's of a layer by itself is ``name``."""
    return NETWORK + name.replace("_l0", f"_l{number}")


def _check(weights: str, path: str | None) -> None:
    if weights == "random" and path is not None:
        raise ValueError(
            "encoder.path names trained weights, and weights=random wants none: leave one of them out."
        )
    if weights == "pretrained" and path is None:
        raise ValueError("encoder.path must name an encoder's folder where weights=pretrained. Got none.")
