"""A model as named by the user: its name in tables, its run, and its encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

import encoders
from data.errors import UserError
from encoders.bag_of_words import BagOfWords
from encoders.base import Encoder
from encoders.folder import readable
from encoders.kernels import Precision
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting

EXPORT = "encoder"  # folder of the exported encoder in a run folder


@dataclass(frozen=True)
class Named:
    """A model by name, with its options.

    Attributes:
        model: a run's folder, an encoder's folder, a name of ``encoders/checkpoints``, a model of the hub,
            "bag_of_words", or "random_vectors".
        pooling: name of the pooling; None: the model's own.
        vectors: file of word vectors, for a bag of words.
        lowercase: if true, a bag of words looks words up in lower case.
        weighting, counts: weighting of words in a bag of words (see BagOfWords).
        layers: number of layers to keep, for a transformer; None: all.
        precision: precision of the encoder's products ("fp32", "tf32", "bf16").
    """

    model: str
    pooling: str | None = None
    vectors: str | Path | None = None
    lowercase: bool = False
    weighting: Weighting = "none"
    counts: str | Path | None = None
    layers: int | None = None
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        with readable(repr(self.model)[:200]):
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
        if self.vectors is not None and self.model == "bag_of_words":
            name += f", {_stem(self.vectors)}" + ", lower-cased" * self.lowercase
            if self.counts is not None and self.weighting != "none":
                name += f", {self.weighting} of {_stem(self.counts)}"
        if self.layers is not None:
            name += f", layers {self.layers}"
        if self.precision != "fp32":
            name += f", {self.precision}"
        return name + (f", {self.pooling}" if self.pooling else "")

    def open(self, device: str, pooling: str | None = None) -> Encoder | RandomVectors:
        """Opens the encoder in eval mode; ``pooling`` overrides the model's.

        Raises:
            UserError: if it cannot be opened.
        """
        if self.model == "random_vectors":
            return RandomVectors()
        if self.model == "bag_of_words":
            return BagOfWords(
                vectors=str(self.vectors),
                lowercase=self.lowercase,
                weighting=self.weighting,
                counts=None if self.counts is None else str(self.counts),
                device=device,
            )
        folder = self.path if self.run is None else self.run / EXPORT
        with readable(folder):  # a UserError, so that a broken run of a sweep does not stop the others
            return encoders.load(
                folder if folder.is_dir() else self.model,
                pooling=pooling or self.pooling,
                layers=self.layers,
                device=device,
                precision=self.precision,
            ).eval()


def _stem(file: str | Path) -> str:
    return Path(file).name.split(".txt")[0]


def device(wanted: str) -> str:
    """Resolves ``wanted`` (auto, cpu, cuda, mps) to a device.

    Raises:
        UserError: if the device is not available.
    """
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda: there is none here. auto takes what there is.")
    return wanted
