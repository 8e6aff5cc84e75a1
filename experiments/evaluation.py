"""SentEval evaluations with a live table, of a model, a run or an ensemble; and the embedding of a file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

import encoders
from analysis.command import Clock
from analysis.opening import EXPORT, Named, device
from analysis.senteval.along import SentEval
from analysis.senteval.ensemble import ensemble
from analysis.senteval.evaluation import Watch, evaluate
from analysis.senteval.features import embed_file
from analysis.senteval.protocols import PROTOCOLS, Protocol
from analysis.senteval.rendering import rich_table
from analysis.senteval.results import FILE, Results, read_results
from analysis.senteval.tables import comparison, task_table
from data.display import PLAIN_SECONDS
from data.errors import UserError
from data.files import refuse_links_out
from encoders.base import Encoder
from encoders.random_vectors import RandomVectors
from experiments.progress import Display
from experiments.run_folder import ROOT
from experiments.settings import EvaluationSettings, Settings

DOWNLOADED = "senteval"  # where `make senteval-data` puts the data
EMBEDDING = "embedding"


def evaluate_model(settings: EvaluationSettings, *, several: bool = False) -> Path:
    """Evaluates ``settings.model`` on SentEval; returns the results' folder.

    Args:
        several: whether this is one job of a sweep: ``settings.out`` is then the folder of all results.

    Raises:
        UserError: for what the user can mend.
    """
    protocol = PROTOCOLS[settings.protocol]
    protocol = protocol.changed(hidden=settings.hidden, dropout=settings.dropout, folds=settings.folds)
    data = Path(settings.data) if settings.data else ROOT / DOWNLOADED
    if not data.is_dir():
        raise UserError(
            f"There is no SentEval folder {data}: `make senteval-data` fetches it, data=<folder> names another."
        )
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    named = _named(settings)
    name, run = named.name, named.run
    if run is not None:
        refuse_links_out(run)
    own = re.sub(r"[^\w.+-]+", "_", name) + f"-{protocol.name}"
    if settings.out:
        out = Path(settings.out) / own if several else Path(settings.out)
    else:
        # The default evaluation of a run is written into its folder; others have a folder of their own.
        plain = protocol.name == "default" and settings.pooling is None and settings.layers is None
        plain = plain and settings.precision == "fp32"
        out = run if run is not None and plain else Path("evaluations") / own
    display = Display()
    display.fact("model", name)
    given = [
        f"encoder.{key}" for key, value in vars(settings.encoder).items() if value not in (None, False, "none")
    ]
    if given and settings.model != "bag_of_words":
        display.warn(f"not used    {', '.join(given)}: only model=bag_of_words has it")
    elif settings.encoder.counts and settings.encoder.weighting == "none":
        display.warn("not used    encoder.counts: encoder.weighting=none counts no words")
    _evaluate(
        lambda pooling: named.open(device(settings.device), pooling),
        {"name": name, "path": settings.model, "pooling": settings.pooling, "vectors": settings.encoder.vectors},
        protocol,
        out,
        display,
        data=data,
        probing=Path(settings.probing) if settings.probing else None,
        tasks=settings.tasks,
        cache=ROOT / settings.cache / "vectors",
        device=device(settings.device),
    )
    return out


def _named(settings: EvaluationSettings) -> Named:
    return Named(
        settings.model,
        settings.pooling,
        layers=settings.layers,
        precision=settings.precision,
        **vars(settings.encoder),
    )


def evaluate_run(wanted: SentEval, folder: Path, settings: Settings, display: Display) -> None:
    """Evaluates the encoder that a run has exported into its ``folder``."""

    def open_encoder(pooling: str | None) -> Encoder:
        return encoders.load(folder / EXPORT, pooling=pooling, device=device(settings.device))

    _evaluate(
        open_encoder,
        {"name": folder.name, "path": str(folder / EXPORT), "pooling": None, "vectors": None},
        wanted.protocol,
        folder,
        display,
        data=wanted.data,
        probing=wanted.probing,
        tasks=wanted.tasks,
        cache=ROOT / settings.cache / "vectors",
        device=device(settings.device),
    )


def _evaluate(
    open_encoder: Callable[[str | None], Encoder | RandomVectors],
    model: dict[str, Any],
    protocol: Protocol,
    out: Path,
    display: Display,
    **options: Any,
) -> None:
    """Calls ``evaluate`` with ``options``; shows its progress and its results."""
    display.fact("protocol", f"{protocol.name}: {protocol.source}")
    display.fact("results", str(out / FILE))
    with _held(out), _shown(display) as watch:
        results = evaluate(open_encoder, model, protocol, out=out, watch=watch, **options)
    for task, path in results.missing.items():
        display.say(f"left out    {task}: {path} is not there", style="dim")
    _show(results)


def combine(settings: EvaluationSettings) -> Path:
    """Evaluates the ensemble of the results ``settings.ensemble``; returns the folder of its results.

    Raises:
        UserError: for what the user can mend.
    """
    out, members = Path(str(settings.out)), settings.ensemble or []
    display = Display()
    display.fact("ensemble", ", ".join(members))
    display.fact("results", str(out / FILE))
    with _held(out):
        results = ensemble(members, out, settings.tasks)
    display.fact("weights", "dev performance of each task, normalised; equal where there is no dev set (STS12-16)")
    for task in results.model["left_out"]:
        display.say(f"left out    {task}: its predictions are not kept", style="dim")
    _show(results)
    return out


def _show(results: Results) -> None:
    table = task_table(results.tasks, title=f"SentEval: {results.model['name']} ({results.protocol})")
    # As wide as needed: a score that is folded over two lines cannot be read.
    Console(width=Console(width=1000).measure(table).maximum).print(table)


def compare(folders: Sequence[Path]) -> None:
    """Prints one table of several results."""
    grid = comparison([read_results(folder) for folder in dict.fromkeys(folders)])
    Console().print(rich_table(grid, Console().width))


def embed(settings: EvaluationSettings) -> None:
    """Embeds the file ``settings.embed``, a sentence a line, into ``settings.out``."""
    source, out = Path(str(settings.embed)), Path(str(settings.out))
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    display = Display()
    encoder = _named(settings).open(device(settings.device))
    with display.bar("embedding, per cent:", 100) as show:
        embed_file(encoder, source, out, progress=lambda share: show(int(100 * share), 100, ""))
    shape = np.load(out, mmap_mode="r").shape
    display.fact("vectors", f"{out}: float32 of shape ({shape[0]:,}, {shape[1]:,})")


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Locks ``out`` against other processes; removes it if it stays empty."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / ".evaluation.lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{out} is in use by another evaluation.") from None
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}): out=<folder> names another.") from None
    try:
        yield
    finally:
        lock.release()
        (out / ".evaluation.lock").unlink(missing_ok=True)
        with suppress(OSError):  # until one is not empty
            for folder in made:
                folder.rmdir()


@contextmanager
def _shown(display: Display) -> Iterator[Watch]:
    """Yields the display of an evaluation: a live table on a terminal, a line for each task elsewhere."""
    if not display.console.is_terminal:
        yield _Lines(display)
        return
    with Live(console=display.console, transient=True, refresh_per_second=4) as live:
        yield _LiveTable(live)


class _Lines(Watch):
    """Prints a line when a task is done, and every ``PLAIN_SECONDS`` during a long one."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._clock = Clock()
        self._what = ""
        self._next = time.monotonic() + PLAIN_SECONDS

    def embedding(self, share: float) -> None:
        self._say(EMBEDDING, share, share)

    def begin(self, results: Results, task: str, waiting: Sequence[str]) -> None:
        if self._what == EMBEDDING:
            self._clock.restart()
        self._what = task

    def progress(self, share: float, whole: float) -> None:
        self._say(self._what, share, whole)

    def _say(self, what: str, share: float, whole: float) -> None:
        self._what, self._clock.share = what, whole
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            self._display.say(f"{what:<22} {share:4.0%}  {self._clock.left()}")

    def end(self, results: Results, task: str) -> None:
        record = results.tasks[task]
        scores = "  ".join(
            f"{split} {value:.2f}" for split in ("dev", "test") if (value := record[split]) is not None
        )
        self._display.say(f"{task:<22} {scores}  {record['seconds']:.1f} s")


class _LiveTable(Watch):
    """The results so far, the task being evaluated, and the time left."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._clock = Clock()
        self._table: Any = ""
        self._what = ""

    def embedding(self, share: float) -> None:
        self._what = EMBEDDING
        self.progress(share, share)

    def begin(self, results: Results, task: str, waiting: Sequence[str]) -> None:
        pending = {name: "waiting" for name in waiting} | {task: "running"}
        self._table = task_table(results.tasks, pending)
        if self._what == EMBEDDING:
            self._clock.restart()
        self._what = f"{task}, {len(waiting)} more"

    def progress(self, share: float, whole: float) -> None:
        self._clock.share = whole
        self._live.update(Group(self._table, Text(f"{self._what}  {share:4.0%}  {self._clock.left()}")))
