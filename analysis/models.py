"""Models to evaluate, opened by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import torch

import encoders
from analysis.model_names import EXPORT, model_name, run_folder, split_members
from analysis.senteval.vectors import CHUNK, CheckedEncoder, Vectors, embed
from data.display import bar
from data.errors import UserError, reading
from data.files import atomic_write
from data.ranges import SizeOrZero
from data.sources.reading import lines
from encoders.base import Encoder
from encoders.kernels import Precision
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting


@dataclass(kw_only=True)
class Words:
    """Settings of the model bag_of_words; ``encoders.bag_of_words.BagOfWords`` describes them."""

    vectors: str | None = None
    lowercase: bool = False
    weighting: Weighting = "none"
    counts: str | None = None


class ModelOptions(TypedDict, total=False):
    """Options of all evaluations that open models.

    Attributes:
        pooling: pooling of token states; default: the model's own.
        layers: number of a transformer's first layers to use (0: embeddings only); default: all.
        encoder: word vectors for bag_of_words: encoder.vectors (a text file), encoder.lowercase, encoder.weighting
            (none, tfidf or sif, which need encoder.counts, a text file to count words in).
        device: device of encoders and classifiers: auto (the default), cpu, cuda or mps.
        precision: of matrix products: fp32 (the default), or on GPUs the faster tf32 or bf16.
    """

    pooling: Literal["mean", "cls", "max", "last", "pooler"] | None
    layers: SizeOrZero | None
    encoder: Annotated[Mapping[str, Any], Words]
    device: Literal["auto", "cpu", "cuda", "mps"]
    precision: Precision


@dataclass
class Model:
    """An encoder with its name in tables.

    Attributes:
        name: name in tables.
        encoder: encoder of sentences.
    """

    name: str
    encoder: Encoder | RandomVectors

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Embeds ``sentences``, each distinct one once, and shows the progress.

        Raises:
            UserError: if a vector is not finite.
        """
        with bar(f"embedding, {self.name}") as progress:
            return embed(CheckedEncoder(self.encoder, CHUNK), sentences, progress=progress)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``sentences``, float32 of shape (n, D), in memory; raises as ``vectors`` does."""
        return self.vectors(sentences).rows(sentences)


def open_models(models: Sequence[str], **options: Unpack[ModelOptions]) -> Iterator[Model]:
    """Opens each of ``models`` when it is reached.

    Raises:
        UserError: if one cannot be opened.
    """
    for model in models:
        yield Model(model_name(model, **options), open_encoder(model, **options))


def open_encoder(model: str, **options: Unpack[ModelOptions]) -> Encoder | RandomVectors:
    """Opens an encoder in eval mode.

    Args:
        model: folder of a run or an encoder, name of a bundled checkpoint or a model of the hub, "bag_of_words" or
            "random_vectors"; "a+b" concatenates the vectors of models a and b.
        options: see ``ModelOptions``; a baseline ignores those that it does not have.

    Raises:
        UserError: if it cannot be opened.
    """
    from encoders.bag_of_words import BagOfWords  # late, with transformers, which takes seconds to import
    from encoders.concatenated import Concatenated

    device = resolve_device(options.get("device"))
    with reading("encoder", model):
        if model == "random_vectors":
            return RandomVectors()
        if model == "bag_of_words":
            return BagOfWords(**options.get("encoder", {})).to(device)
        if len(members := split_members(model)) > 1:
            return Concatenated([open_encoder(member, **options) for member in members])  # type: ignore[misc]
        run = run_folder(model)
        return encoders.load(
            run / EXPORT if run else model,
            pooling=options.get("pooling"),
            layers=options.get("layers"),
            device=device,
            precision=options.get("precision", "fp32"),
        ).eval()


def resolve_device(device: str | None) -> str:
    """Returns the name of a device; "auto" and None: "cuda" if there is one, else "cpu".

    Raises:
        UserError: if there is no such device.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("this machine has no CUDA GPU", key="device")
    return device if device not in (None, "auto") else "cuda" if torch.cuda.is_available() else "cpu"


def embed_sentences(*, model: str, sentences: str, out: str, **options: Unpack[ModelOptions]) -> None:
    """Writes a vector for each line of a text file.

    Args:
        model: name of a model, as in ``open_encoder``.
        sentences: a text file, a sentence a line; .gz is read, too.
        out: <file>.npy, float32 of shape (lines, D).
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the model or the file cannot be read, or ``out`` cannot be written.
    """
    texts = [text.rstrip("\r\n") for _, text in lines(Path(sentences).expanduser())]
    vectors = open_encoder(model, **options).encode(texts, show_progress_bar=True)
    path = Path(out).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "wb") as file:
        np.save(file, vectors)
