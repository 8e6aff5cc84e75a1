"""Shared parts of the evaluations: models with cached vectors, files of text, JSON results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.models import Named
from analysis.senteval.features import Vectors, embed
from analysis.senteval.files.loaders import Line
from analysis.settings import ModelsSettings
from data.display import bar, printable
from data.errors import UserError, reason
from data.files import write_json
from data.sources.reading import lines
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors


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


def stream(path: Path) -> Iterator[Line]:
    """Yields the lines of a text file of any size, plain or .gz, without line breaks.

    Raises:
        UserError: if it cannot be read completely, or is not UTF-8 text.
    """
    return (Line(f"{path}:{number}", text.rstrip("\r\n")) for number, text in lines(path))


def write(out: str | None, result: Any) -> None:
    """Writes ``result`` to ``out`` as JSON, atomically; does nothing if ``out`` is None.

    Raises:
        UserError: if it cannot be written.
    """
    if out is None:
        return
    path = Path(out).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, result)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({reason(error)}): out=<file> names another.") from error
