"""Models to evaluate: named by the user, opened, and with cached vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import encoders
from analysis.senteval.features import Vectors, embed
from analysis.settings import WITHOUT_POOLING, ModelOptions, ModelsSettings
from data.display import bar, printable
from data.errors import UserError, opening
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors

EXPORT = "encoder"  # folder of the exported encoder in a run folder


@dataclass(frozen=True)
class Named:
    """A model by name, with its options.

    Attributes:
        model: a run's folder, an encoder's folder, a name of ``encoders/checkpoints``, a model of the hub,
            "bag_of_words", or "random_vectors".
        options: how it is opened; those that a model does not have are ignored.
    """

    model: str
    options: ModelOptions = field(default_factory=ModelOptions)

    def __post_init__(self) -> None:
        with opening(repr(self.model)[:200]):
            self.path.is_dir()  # raises if it cannot be a path

    @property
    def path(self) -> Path:
        return Path(self.model).expanduser()

    @property
    def run(self) -> Path | None:
        """Folder of the model's run; None if it is not from a run."""
        place = self.path.parent if self.path.name == EXPORT else self.path
        return place if (place / "config.yaml").is_file() and (place / EXPORT).is_dir() else None

    @property
    def name(self) -> str:
        """Name in tables."""
        if self.run is not None:
            name = self.run.resolve().name
        else:
            # Two parts of the path, as many folders have the same last name ("model").
            name = "/".join(self.path.resolve().parts[-2:]) if self.path.is_dir() else self.model
        options, words = self.options, self.options.encoder
        if words.vectors is not None and self.model == "bag_of_words":
            name += f", {_stem(words.vectors)}" + ", lower-cased" * words.lowercase
            if words.counts is not None and words.weighting != "none":
                name += f", {words.weighting} of {_stem(words.counts)}"
        if self.model in WITHOUT_POOLING:
            return name
        if options.layers is not None:
            name += f", layers {options.layers}"
        if options.precision != "fp32":
            name += f", {options.precision}"
        return name + (f", {options.pooling}" if options.pooling else "")

    def open(self, pooling: str | None = None) -> Encoder | RandomVectors:
        """Opens the encoder in eval mode; ``pooling`` overrides the model's.

        Raises:
            UserError: if it cannot be opened.
        """
        if self.model == "random_vectors":
            return RandomVectors()
        if self.model == "bag_of_words":
            words = self.options.encoder
            return BagOfWords(
                vectors=str(words.vectors),
                lowercase=words.lowercase,
                weighting=words.weighting,
                counts=words.counts,
                device=device(self.options.device),
            )
        folder = self.path if self.run is None else self.run / EXPORT
        with opening(folder):  # a UserError, so that a broken run of a sweep does not stop the others
            return encoders.load(
                folder if folder.is_dir() else self.model,
                pooling=pooling or self.options.pooling,
                layers=self.options.layers,
                device=device(self.options.device),
                precision=self.options.precision,
            ).eval()


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


def open_models(settings: ModelsSettings) -> Iterator[Model]:
    """Opens each of the models that ``settings`` name when it is reached.

    Raises:
        UserError: if it cannot be opened.
    """
    for name in settings.models:
        named = Named(name, settings)
        yield Model(named.name, named.open(), settings.vectors_cache)


def device(wanted: str) -> str:
    """Resolves ``wanted`` (auto, cpu, cuda, mps) to a device.

    Raises:
        UserError: if the device is not available.
    """
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda: this machine has no CUDA GPU; device=auto takes what there is.")
    return wanted


def _stem(file: str | Path) -> str:
    return Path(file).name.split(".txt")[0]
