"""What the evaluations of GenSen's paper share as commands: models by name, kept vectors, tables, JSON results."""

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
from encoders.pooler import POOLER
from encoders.pooling import POOLINGS
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "vectors"
SHOWN_FORMATS = ("text", "md", "csv")
MODEL = (
    "a run's folder, an encoder's folder, a name of encoders/checkpoints, a model of the hub, bag_of_words (with "
    "--word-vectors), or random_vectors, the floor"
)


class Model:
    """An encoder under the name that tables call it.

    Args:
        name: what tables call it.
        encoder: gives the vectors.
        cache: folder that keeps them; None keeps none.
    """

    def __init__(self, name: str, encoder: Encoder | RandomVectors, cache: Path | None = None) -> None:
        self.name = printable(name)
        self.encoder = encoder
        self._cache = cache

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.encoder)

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Vectors of ``sentences``, each distinct one computed once; a bar on a terminal tells how far it is.

        Raises:
            UserError: if one is not finite, or the cache cannot be used.
        """
        with bar(f"embedding, {self.name}") as progress:
            return embed(self.encoder, sentences, cache=self._cache, key=self.fingerprint, progress=progress)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors of ``sentences``, float32 of shape (n, D), in memory; raises as ``vectors`` does."""
        return self.vectors(sentences).rows(sentences)

    def facts(self) -> dict[str, Any]:
        """What a result file says of it."""
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
    output.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON besides")
    return made


def model_parser(module: str, description: str, *, several: bool) -> argparse.ArgumentParser:
    """Returns a parser of models and their options; ``several``: whether more than one may be named."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "models" if several else "model", nargs="+" if several else None, metavar="MODEL", help=MODEL
    )
    group = made.add_argument_group("models")
    group.add_argument("--word-vectors", type=Path, metavar="FILE", help="of bag_of_words: a text file, .gz too")
    group.add_argument("--lowercase", action="store_true", help="of bag_of_words: look words up in lower case")
    group.add_argument("--weighting", choices=get_args(Weighting), default="none", help="of bag_of_words' words")
    group.add_argument("--counts", type=Path, metavar="FILE", help="of --weighting: text to count words in")
    group.add_argument("--pooling", choices=(*POOLINGS, POOLER), help="default: the model's own")
    group.add_argument("--layers", type=whole, metavar="K", help="of a transformer: keep its first K layers alone")
    group.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    group.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER", help="keeps vectors (%(default)s)")
    group.add_argument("--no-cache", dest="cache", action="store_const", const=None, help="keep no vectors")
    return made


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1. Got {text} instead")
    return value


def whole(text: str) -> int:
    """A whole number of at least 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0. Got {text} instead")
    return int(text)


def opened(name: str, given: argparse.Namespace) -> Model:
    """The model ``name``, with the options of ``parser``.

    Raises:
        UserError: if it cannot be opened.
    """
    if name == "bag_of_words" and given.word_vectors is None:
        raise UserError("bag_of_words needs --word-vectors: a text file, a word and its numbers a line.")
    if name == "bag_of_words" and given.weighting != "none" and given.counts is None:
        raise UserError(f"--weighting {given.weighting} needs --counts: a text file, a sentence a line.")
    pooling = None if name in WITHOUT_POOLING else given.pooling
    layers = None if name in WITHOUT_POOLING else given.layers
    named = Named(name, pooling, given.word_vectors, given.lowercase, given.weighting, given.counts, layers)
    return Model(named.name, named.open(device(given.device)), given.cache)


def stream(path: Path) -> Iterator[Line]:
    """The lines of a text file of any size, plain or .gz, without their ends.

    Raises:
        UserError: if it cannot be read to its end, or is not UTF-8 text.
    """
    return (Line(f"{path}:{number}", text.rstrip("\r\n")) for number, text in lines(path))


def finished(work: Callable[[], None]) -> int:
    """Exit status of a command that does ``work``: what the user can mend is one line and status 2."""
    try:
        work()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def show(grid: Grid, form: str) -> None:
    """Prints a table; a CSV's notes go to the error stream, as it has no place for them."""
    console = Console()
    if form == "text" and console.is_terminal:
        console.print(rich_table(grid, console.width))
        return
    print(FORMATS[form](grid))
    if form == "csv":
        print("\n".join(map(printable, grid.notes)), file=sys.stderr)


def write(out: Path | None, result: Any) -> None:
    """Writes ``result`` to ``out`` as JSON, atomically; nowhere where that is None.

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
def bar(what: str) -> Iterator[Callable[[float], None]]:
    """A bar on the error stream, or a line now and then where that is no terminal.

    Yields what tells it the share done, 0 to 1.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        clock = Clock()
        due = [time.monotonic() + PLAIN_SECONDS]

        def line(share: float) -> None:
            if (now := time.monotonic()) >= due[0] and 0 < share < 1:
                due[0] = now + PLAIN_SECONDS
                clock.share = share
                console.print(f"{what} {share:.0%}  {clock.left()}", markup=False, soft_wrap=True)

        yield line
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=1.0)
        yield lambda share: shown.update(task, completed=share)
