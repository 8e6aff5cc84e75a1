"""Models to evaluate: opened by name, with cached sentence vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import torch

import encoders
from analysis.model_names import EXPORT, run_folder, short_name, split_members
from analysis.senteval.vectors import Vectors, embed
from data.display import bar
from data.errors import UserError, reading
from data.files import atomic_write
from data.ranges import SizeOrZero
from data.sources.reading import lines
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.kernels import Precision
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting

ROOT = Path(__file__).resolve().parents[1]

DEFAULTS = ("None", "False", "none", "fp32")  # of options, not shown in names

Device = Literal["auto", "cpu", "cuda", "mps"]


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
        cache: folder of sentence vectors, from the checkout if relative; default: .cache; null keeps none.
    """

    pooling: Literal["mean", "cls", "max", "last", "pooler"] | None
    layers: SizeOrZero | None
    encoder: Annotated[Mapping[str, Any], Words]
    device: Device
    precision: Precision
    cache: str | None


@dataclass
class Model:
    """An encoder with its name in tables.

    Attributes:
        name: name in tables.
        encoder: encoder of sentences.
        cache: folder of cached vectors; None disables the cache.
    """

    name: str
    encoder: Encoder | RandomVectors
    cache: Path | None = None

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.encoder)

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Embeds ``sentences``, each distinct one once, and shows the progress.

        Raises:
            UserError: if a vector is not finite, or the cache cannot be used.
        """
        store = None if self.cache is None else self.cache / self.fingerprint
        with bar(f"embedding, {self.name}") as progress:
            return embed(self.encoder, sentences, store=store, progress=progress)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``sentences``, float32 of shape (n, D), in memory; raises as ``vectors`` does."""
        return self.vectors(sentences).rows(sentences)

    def facts(self) -> dict[str, Any]:
        """Returns the description of the model for result files."""
        facts = {name: getattr(self.encoder, name) for name in ("weights", "origin", "dimension")}
        return {"name": self.name, "fingerprint": self.fingerprint, **facts}


def open_models(models: Sequence[str], **options: Unpack[ModelOptions]) -> Iterator[Model]:
    """Opens each of ``models`` when it is reached.

    Raises:
        UserError: if one cannot be opened.
    """
    for model in models:
        yield Model(model_name(model, **options), open_encoder(model, **options), vector_cache(**options))


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

    device, precision = resolve_device(options.get("device")), options.get("precision", "fp32")
    with reading("encoder", model):
        if model == "random_vectors":
            return RandomVectors()
        if model == "bag_of_words":
            return BagOfWords(**options.get("encoder", {}), device=device)
        if len(members := split_members(model)) > 1:
            joined = Concatenated([open_encoder(member, **options) for member in members])  # type: ignore[misc]
            joined.encode_in(precision)
            return joined
        run = run_folder(model)
        return encoders.load(
            run / EXPORT if run else model,
            pooling=options.get("pooling"),
            layers=options.get("layers"),
            device=device,
            precision=precision,
        ).eval()


def model_name(model: str, **options: Unpack[ModelOptions]) -> str:
    """Returns the name of ``model`` in tables, with the options that change its vectors."""
    marks: Mapping[str, Any] = {}
    if model == "bag_of_words":
        marks = options.get("encoder", {})
    elif model != "random_vectors":
        marks = {key: options.get(key) for key in ("layers", "precision", "pooling")}
    texts = {key: str(value) for key, value in marks.items()}
    named = [f"{key} {Path(text).name}" for key, text in texts.items() if text not in DEFAULTS]
    return ", ".join([short_name(model), *named])


def vector_cache(**options: Unpack[ModelOptions]) -> Path | None:
    """Returns the folder of cached sentence vectors; None if none are kept."""
    cache = options.get("cache", ".cache")
    return None if cache is None else ROOT / cache / "vectors"


def resolve_device(device: str | None) -> str:
    """Resolves "auto" to a device of this machine.

    Raises:
        UserError: if there is no such device.
    """
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UserError("this machine has no CUDA GPU", key="device", hint="device=auto takes what there is.")
    return device if device not in (None, "auto") else "cuda" if available else "cpu"


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
    if not texts:
        raise UserError("has no lines", key=sentences)
    vectors = open_encoder(model, **options).encode(texts, show_progress_bar=True)
    path = Path(out).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "wb") as file:
        np.save(file, vectors)
