"""Shared parts of the commands of ``analysis``: models by name, cached vectors, tables, JSON results."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from analysis.models import Named, device
from analysis.reporting.rendering import FORMATS, Grid, rich_table
from analysis.senteval.features import Vectors, embed
from analysis.senteval.files.reading import Line
from data.display import PLAIN_SECONDS, WITHOUT_POOLING, Clock, printable
from data.errors import UserError, reason
from data.files import write_json
from data.sources.reading import lines
from encoders.base import Encoder
from encoders.fingerprint import fingerprint
from encoders.pooling import POOLER, POOLINGS
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "vectors"
SHOWN_FORMATS = ("text", "md", "csv")
MODEL = (
    "a run's folder, an encoder's folder, a name of encoders/checkpoints, a model of the hub, bag_of_words (with "
    "--word-vectors), or random_vectors (chance level)"
)


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


def parser(module: str, description: str, *, several: bool) -> argparse.ArgumentParser:
    """Returns ``model_parser`` with the options of a command that prints a table and writes a JSON file."""
    made = model_parser(module, description, several=several)
    output = made.add_argument_group("output")
    output.add_argument("--format", default="text", choices=SHOWN_FORMATS)
    output.add_argument("--out", type=Path, metavar="FILE", help="also write the result as JSON")
    return made


def model_parser(module: str, description: str, *, several: bool) -> argparse.ArgumentParser:
    """Returns a parser of models and their options; with ``several`` more than one may be named."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "models" if several else "model", nargs="+" if several else None, metavar="MODEL", help=MODEL
    )
    group = made.add_argument_group("models")
    group.add_argument(
        "--word-vectors", type=Path, metavar="FILE", help="word vectors for bag_of_words: a text file, may be .gz"
    )
    group.add_argument("--lowercase", action="store_true", help="for bag_of_words: look words up in lower case")
    group.add_argument(
        "--weighting", choices=get_args(Weighting), default="none", help="weights of words in bag_of_words"
    )
    group.add_argument("--counts", type=Path, metavar="FILE", help="for --weighting: text to count words in")
    group.add_argument("--pooling", choices=(*POOLINGS, POOLER), help="default: the model's own")
    group.add_argument("--layers", type=whole, metavar="K", help="for a transformer: keep only its first K layers")
    group.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    group.add_argument(
        "--cache", type=Path, default=CACHE, metavar="FOLDER", help="folder of cached vectors (%(default)s)"
    )
    group.add_argument("--no-cache", dest="cache", action="store_const", const=None, help="do not cache vectors")
    return made


def positive(text: str) -> int:
    """Parses an integer of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1. Got {text} instead")
    return value


def whole(text: str) -> int:
    """Parses an integer of at least 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0. Got {text} instead")
    return int(text)


def opened(name: str, given: argparse.Namespace) -> Model:
    """Opens the model ``name`` with the options of ``parser``.

    Raises:
        UserError: if it cannot be opened.
    """
    if name == "bag_of_words" and given.word_vectors is None:
        raise UserError("bag_of_words needs --word-vectors: a text file with a word and its numbers per line.")
    if name == "bag_of_words" and given.weighting != "none" and given.counts is None:
        raise UserError(f"--weighting {given.weighting} needs --counts: a text file with one sentence per line.")
    pooling = None if name in WITHOUT_POOLING else given.pooling
    layers = None if name in WITHOUT_POOLING else given.layers
    named = Named(name, pooling, given.word_vectors, given.lowercase, given.weighting, given.counts, layers)
    return Model(named.name, named.open(device(given.device)), given.cache)


def stream(path: Path) -> Iterator[Line]:
    """Yields the lines of a text file of any size, plain or .gz, without line breaks.

    Raises:
        UserError: if it cannot be read completely, or is not UTF-8 text.
    """
    return (Line(f"{path}:{number}", text.rstrip("\r\n")) for number, text in lines(path))


def finished(work: Callable[[], None]) -> int:
    """Runs ``work`` and returns the exit status of a command; a UserError prints one line and gives status 2."""
    try:
        work()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def show(grid: Grid, form: str) -> None:
    """Prints a table; with CSV, which has no place for notes, these go to the error stream."""
    console = Console()
    if form == "text" and console.is_terminal:
        console.print(rich_table(grid, console.width))
        return
    print(FORMATS[form](grid))
    if form == "csv":
        print("\n".join(map(printable, grid.notes)), file=sys.stderr)


def write(out: Path | None, result: Any) -> None:
    """Writes ``result`` to ``out`` as JSON, atomically; does nothing if ``out`` is None.

    Raises:
        UserError: if it cannot be written.
    """
    if out is None:
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, result)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({reason(error)}): --out names another file.") from error


@contextmanager
def bar(title: str) -> Iterator[Callable[[float], None]]:
    """Shows progress on the error stream: a bar on a terminal, otherwise a line from time to time.

    Yields a function that takes the share done, 0 to 1.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        clock = Clock()
        due = [time.monotonic() + PLAIN_SECONDS]

        def line(share: float) -> None:
            if (now := time.monotonic()) >= due[0] and 0 < share < 1:
                due[0] = now + PLAIN_SECONDS
                clock.share = share
                console.print(f"{title} {share:.0%}  {clock.left()}", markup=False, soft_wrap=True)

        yield line
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=1.0)
        yield lambda share: shown.update(task, completed=share)
