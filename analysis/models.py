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
from analysis.senteval.features import Vectors, embed, embed_file
from data.display import bar, printable
from data.errors import UserError, reading
from data.ranges import SizeOrZero
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.kernels import Precision
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting

ROOT = Path(__file__).resolve().parents[1]
BASELINES = ("bag_of_words", "random_vectors")  # models without pooling, layers or precision to choose

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
        pooling: None: the model's own.
        layers: number of a transformer's first layers to use; None: all.
        encoder: word vectors and their weights, for bag_of_words.
        device: device of encoders and classifiers.
        precision: precision of the encoder's matrix products.
        cache: folder of sentence vectors, from the checkout if relative; None keeps none.
    """

    pooling: Literal["mean", "cls", "max", "last", "pooler"] | None
    layers: SizeOrZero | None
    encoder: Annotated[Mapping[str, Any], Words]
    device: Device
    precision: Precision
    cache: str | None


class Model:
    """An encoder with its name in tables.

    Args:
        name: name in tables.
        encoder: encoder of sentences.
        cache: folder of cached vectors; None disables the cache.
    """

    def __init__(self, name: str, encoder: Encoder | RandomVectors, cache: Path | None = None) -> None:
        self.name = printable(name)
        self.encoder = encoder
        self._cache = cache

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.encoder)

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Embeds ``sentences``, each distinct one once, and shows the progress.

        Raises:
            UserError: if a vector is not finite, or the cache cannot be used.
        """
        with bar(f"embedding, {self.name}") as progress:
            return embed(self.encoder, sentences, cache=self._cache, key=self.fingerprint, progress=progress)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``sentences``, float32 of shape (n, D), in memory; raises as ``vectors`` does."""
        return self.vectors(sentences).rows(sentences)

    def facts(self) -> dict[str, Any]:
        """Returns the description of the model for result files."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "weights": self.encoder.weights,
            "origin": self.encoder.origin,
            "dimension": self.encoder.dimension,
        }


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

    device = resolve_device(options.get("device", "auto"))
    precision = options.get("precision", "fp32")
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
            model if run is None else run / EXPORT,
            pooling=options.get("pooling"),
            layers=options.get("layers"),
            device=device,
            precision=precision,
        ).eval()


def model_name(model: str, **options: Unpack[ModelOptions]) -> str:
    """Returns the name of ``model`` in tables, with the options that change its vectors."""
    marks = []
    words = options.get("encoder", {})
    if model == "bag_of_words" and (vectors := words.get("vectors")):
        marks = [_stem(vectors), "lower-cased" if words.get("lowercase") else ""]
        if (weighting := words.get("weighting", "none")) != "none":
            marks.append(f"{weighting} of {_stem(words.get('counts') or '')}")
    elif model not in BASELINES:
        layers, precision = options.get("layers"), options.get("precision", "fp32")
        marks = ["" if layers is None else f"layers {layers}", "" if precision == "fp32" else precision]
        marks.append(options.get("pooling") or "")
    return ", ".join(filter(None, [short_name(model), *marks]))


def vector_cache(**options: Unpack[ModelOptions]) -> Path | None:
    """Returns the folder of cached sentence vectors; None if none are kept."""
    cache = options.get("cache", ".cache")
    return None if cache is None else ROOT / cache / "vectors"


def resolve_device(device: str | None) -> str:
    """Resolves "auto" to a device of this machine.

    Raises:
        UserError: if there is no such device.
    """
    if device in (None, "auto"):
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("this machine has no CUDA GPU", key="device", hint="device=auto takes what there is.")
    return str(device)


def embed_sentences(*, model: str, sentences: str, out: str, **options: Unpack[ModelOptions]) -> None:
    """Writes a vector for each line of the file ``sentences`` to ``out`` (.npy, float32 of shape (lines, D)).

    Raises:
        UserError: if the model or the file cannot be read, or ``out`` cannot be written.
    """
    with bar("embedding") as progress:
        embed_file(open_encoder(model, **options), Path(sentences).expanduser(), Path(out).expanduser(), progress)


def _stem(file: str) -> str:
    return Path(file).name.split(".txt")[0]
